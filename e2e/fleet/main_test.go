package fleet

import (
	"os"
	"testing"
)

// asCrowd makes the test binary a crowd of agents: a process of its own, so that
// what the controller takes can be measured alone.
const asCrowd = "NODEHITCH_TEST_CROWD"

func TestMain(m *testing.M) {
	if os.Getenv(asCrowd) != "" {
		os.Exit(crowd())
	}
	os.Exit(m.Run())
}
