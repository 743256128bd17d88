package controllerfault

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// The controller is killed at every transaction of a workload that makes each kind of
// write once, at several points of the commit. When it starts again, everything
// acknowledged is there, the records are consistent, and no certificate is accepted that
// must not be. The workload, continued, ends in the same state as without a kill.
// `make test` takes a sample.
func TestKilledAtEveryTransaction(t *testing.T) {
	binary := withFailpoints(t)
	want, _ := undisturbed(t, loopback.Options{Binary: binary})
	every, last := 1, 1000
	sample := map[string]int{headerNext: 6, committed: 1} // the 6th replaces a file, the 12th begins an operation
	if !results.Full() {
		every = 11
	}
	for _, point := range []string{begins, pagesLie, headerNext, headerLies, committed} {
		first := 1
		if !results.Full() {
			if first = sample[point]; first == 0 {
				continue
			}
		}
		t.Run(point, func(t *testing.T) {
			c := begin(t, "killed-"+point, "kill -9 at each transaction ("+point+"): nothing acknowledged is lost, and the workload ends in the same state")
			kills, transactions := 0, 0
			for n := first; n < last; n += every {
				killed := t.Run(fmt.Sprint(n), func(t *testing.T) { killAt(t, c, binary, point, n, want, &kills) })
				if !killed {
					break
				}
				if transactions = n; kills <= (n-first)/every {
					break // it has gone through without
				}
			}
			c.Figure("kills", "%d", kills)
			if results.Full() {
				c.Figure("transactions", "%d", transactions-1)
			}
			if kills == 0 {
				t.Error("it was never killed")
			}
		})
	}
}

// undisturbed is the state at the end of a workload without a fault, and how many
// steps it has.
func undisturbed(t *testing.T, o loopback.Options) (want []string, steps int) {
	t.Helper()
	t.Run("undisturbed", func(t *testing.T) {
		r := newRig(t, unrecorded(), o)
		workload(r)
		r.checkLedger()
		want, steps = r.final(), r.steps
		t.Logf("the state at the end:\n%q", want)
	})
	if len(want) == 0 {
		t.FailNow()
	}
	return want, steps
}

// killAt adds how often the controller was killed to kills: 0, if there is no such
// transaction.
func killAt(t *testing.T, c *tally, binary, point string, n int, want []string, kills *int) {
	t.Helper()
	r := newRig(t, c, loopback.Options{Binary: binary}, failpointAt(point, n))
	defer func() { *kills += r.ends }()
	workload(r)
	r.checkLedger()
	if diff := cmp.Diff(want, r.final()); diff != "" {
		t.Errorf("killed at transaction %d, it ends in another state (-without +with the kill):\n%s", n, diff)
	}
}
