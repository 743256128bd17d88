package daemon_test

import (
	"net/http"
	"strings"
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

// An agent that is told to wait waits that long, whatever changes meanwhile, and says so once.
func TestAReportThatIsTooSoonWaits(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	c.refuse = func(r *http.Request, _ string) *api.Problem {
		if r.Method == http.MethodPut {
			return api.NewProblem(api.ProblemTooMany, "too often")
		}
		return nil
	}
	c.retryAfter = "7200"
	n := newNode(t, c)
	n.start()
	said := func() int { return strings.Count(n.logText(), "the status could not be reported") }
	until(t, "the refusal in the log", func() bool { return said() > 0 })
	c.give(2, 1, "")
	until(t, "the next generation is applied", func() bool { return n.work.is() == 2 })
	if got := c.count("PUT /v1/node/status"); got != 1 || said() != 1 || !strings.Contains(n.logText(), "retryIn=1h0m0s") {
		t.Errorf("%d reports and %d lines in the log, want one each and a wait of an hour, the longest that is taken", got, said())
	}
}
