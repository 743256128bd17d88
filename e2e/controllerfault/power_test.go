package controllerfault

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// The power of the controller's disk is cut at random moments of the workload: everything
// that was not synced is lost, a write in progress fails. The controller reports it;
// started again on the remaining data, it has everything that it acknowledged.
func TestPowerCutsOfItsDisk(t *testing.T) {
	want, steps := undisturbed(t, loopback.Options{})
	rounds := 3
	if results.Full() {
		rounds = 60
	}
	c := begin(t, "power-cuts", "the power of the controller's disk is cut at random moments: nothing acknowledged is lost, and the workload ends in the same state")
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	cuts := 0
	for i := range rounds {
		step, after := random.IntN(steps), time.Duration(random.IntN(3_000))*time.Microsecond
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Logf("cut %v after the beginning of step %d of %d", after, step, steps)
			cutAfter(t, c, step, after, want, &cuts)
		})
	}
	c.Figure("cuts", "%d; %d during the workload", rounds, cuts)
	if cuts == 0 {
		t.Error("no cut stopped the workload")
	}
}

// cutAfter cuts the power so long after a step has begun, and adds it to cuts where
// that stopped the work.
func cutAfter(t *testing.T, c *tally, step int, after time.Duration, want []string, cuts *int) {
	t.Helper()
	d := newDisk(t, 48)
	r := newRig(t, c, d.options())
	r.data = d.seen()
	defer func() { *cuts += min(r.ends, 1) }()
	cut := make(chan struct{})
	r.repair = func() {
		select {
		case <-cut: // cutting holds a file of the disk open until then
		case <-time.After(time.Minute):
			t.Fatal("the controller ended before its power was cut")
		}
		r.c.End(syscall.SIGKILL)
		d.replug()
	}
	r.onStep = func(n int) {
		if n == step {
			time.AfterFunc(after, func() {
				defer close(cut)
				d.cut()
			})
		}
	}
	workload(r)
	<-cut
	if r.ends == 0 { // it came when all was done
		r.again()
	}
	r.checkLedger()
	if diff := cmp.Diff(want, r.final()); diff != "" {
		t.Errorf("it ends in another state (-without +with the cut):\n%s", diff)
	}
}
