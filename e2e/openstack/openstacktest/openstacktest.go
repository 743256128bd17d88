// Package openstacktest opens a cloud for a test: it skips with the reason if OpenStack is
// not asked for, and leaves nothing behind.
package openstacktest

import (
	"os"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/openstack"
)

// Env is the environment variable that asks for OpenStack, with the value "1".
const Env = "NODEHITCH_OPENSTACK"

// Require skips the test if OpenStack is not asked for: it takes three gigabytes of
// memory, and half a minute of two processors at its start.
func Require(t testing.TB) {
	t.Helper()
	if os.Getenv(Env) != "1" {
		t.Skipf("needs OpenStack: `make e2e-openstack` runs it (%s=1)", Env)
	}
}

// Open starts a cloud in a lab for a test, if Require lets it run. It ends with the
// test, and shows the ends of the logs if that has failed.
func Open(t testing.TB, l *lab.Lab, o openstack.Options) *openstack.Cloud {
	t.Helper()
	Require(t)
	if o.Log == nil {
		o.Log = t.Logf
	}
	began := time.Now()
	c, err := openstack.Start(t.Context(), l, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			showLogs(t, c)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("OpenStack is up after %.1f s", time.Since(began).Seconds())
	return c
}

// showLogs shows of each service what is worst in it.
func showLogs(t testing.TB, c *openstack.Cloud) {
	t.Helper()
	for _, s := range c.Services() {
		if text := s.Complaints(20); len(text) > 0 {
			t.Logf("of the log of %s (%s):\n%s", s.Name, s.LogFile, text)
		}
	}
}
