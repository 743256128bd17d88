// Package labtest opens labs for tests: it skips with the reason if they cannot run, and
// leaves nothing behind.
package labtest

import (
	"os"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab"
)

// Require skips the test if this host cannot run machines of these kinds, with the reason,
// or fails it if NODEHITCH_LAB=required.
func Require(t testing.TB, kinds ...lab.Kind) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real machines; not in -short")
	}
	if lacks := lab.Missing(kinds...); len(lacks) > 0 {
		refuse := t.Skipf
		if os.Getenv("NODEHITCH_LAB") == "required" {
			refuse = t.Fatalf
		}
		refuse("this host cannot run the lab:\n- %s", strings.Join(lacks, "\n- "))
	}
}

// Open makes a lab for a test, if Require lets it run, and closes it when the
// test ends, also by a panic of its goroutine.
func Open(t testing.TB, kinds ...lab.Kind) *lab.Lab {
	t.Helper()
	Require(t, kinds...)
	l, err := lab.Open(t.Context(), lab.Options{Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}
