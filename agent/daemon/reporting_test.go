package daemon_test

import (
	"net/http"
	"testing"

	"github.com/nodehitch/nodehitch/shared/api"
)

// After a new enrollment, the controller has no report of the machine yet.
func TestNewIdentityTellsItsStatusAgain(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	n := newNode(t, c)
	n.start()
	until(t, "Ready", n.ready(c, 1))
	c.set(func() {
		c.reports = nil
		c.refuse = func(_ *http.Request, serial string) *api.Problem {
			if serial == "1" {
				return api.NewProblem(api.ProblemRevoked, "re-enrollment")
			}
			return nil
		}
	})
	until(t, "Ready under the new identity, with the configuration that it had", n.ready(c, 1))
}
