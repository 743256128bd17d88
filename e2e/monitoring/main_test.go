package monitoring

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain lets all faults be there at the same time: they wait, and compute next to nothing.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "7"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
