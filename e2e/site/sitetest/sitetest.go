// Package sitetest opens a lab with a real controller for a test, which takes instances and
// their machines through operations, and shows what these have logged when it has failed.
package sitetest

import (
	"os"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/site"
)

// logShown is how many bytes of the controller's log a failure shows: more would bury
// what failed where only the beginning of the output is kept.
const logShown = 3000

// Open starts the controller of the binaries in bin, in a lab whose images for
// machines of these kinds are built. All of it goes when the test ends.
func Open(t *testing.T, bin string, kinds ...lab.Kind) *site.Site {
	t.Helper()
	l := labtest.Open(t, kinds...)
	if err := l.BuildImages(t.Context(), kinds...); err != nil {
		t.Fatal(err)
	}
	return OpenIn(t, l, bin)
}

// OpenIn is Open in a lab that is there, with settings as site.Open has them.
func OpenIn(t *testing.T, l *lab.Lab, bin string, settings ...string) *site.Site {
	t.Helper()
	s, err := site.Open(t.Context(), l, bin, settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log, err := os.ReadFile(s.LogFile())
			t.Logf("the controller's log ends with (%v):\n%s", err, log[max(0, len(log)-logShown):])
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}
