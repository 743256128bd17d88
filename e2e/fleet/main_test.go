package fleet

import (
	"os"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/crowd"
)

// TestMain makes the test binary a crowd of agents: a process of its own, so that
// what the controller takes can be measured alone.
func TestMain(m *testing.M) {
	crowd.Main()
	os.Exit(m.Run())
}
