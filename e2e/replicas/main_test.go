package replicas

import (
	"os"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/crowd"
)

func TestMain(m *testing.M) {
	crowd.Main()
	os.Exit(m.Run())
}
