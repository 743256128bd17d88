package peers

import (
	"os"
	"testing"
)

// Require skips the test if the comparisons are not asked for: they take minutes, and
// their limits are ratios of time, which a busy machine can miss.
func Require(t testing.TB) {
	t.Helper()
	if os.Getenv("NODEHITCH_PEERS") != "1" {
		t.Skip("a comparison with peers: `make bench-peers` runs it")
	}
}
