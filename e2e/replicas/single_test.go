package replicas

import (
	"syscall"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// TestSingle kills a controller that is alone with its bbolt: what replicas are measured
// against, and what shows that clients and nodes measure.
func TestSingle(t *testing.T) {
	longOnly(t, "single")
	w := open(t, 0, 1)
	w.phase(t, "single", "one controller with bbolt is killed and systemd starts it again", func(*results.Case) {
		c := w.controllers[0]
		started := c.started()
		c.signal(syscall.SIGKILL)
		loopback.Until(t, "systemd has started it again", func() bool { return c.started() > started })
	})
}
