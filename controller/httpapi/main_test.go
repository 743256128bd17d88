package httpapi_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(crowdEnvironment) != "" {
		os.Exit(crowd())
	}
	goleak.VerifyTestMain(m)
}
