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

// The power of the controller's disk is cut at random moments of the workload:
// whatever was not synced is lost, a write in progress fails. The controller says
// so; started again on what is left, it has everything that it acknowledged.
func TestPowerCutsOfItsDisk(t *testing.T) {
	want := undisturbed(t, loopback.Options{})
	rounds := 3
	if results.Full() {
		rounds = 60
	}
	c := results.Begin(t, "controllerfault", "power-cuts", "the power of the controller's disk is cut at random moments: nothing acknowledged is lost, and the work goes on to the same end")
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	cuts := 0
	for i := range rounds {
		after := time.Duration(random.IntN(300_000)) * time.Microsecond
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Logf("cut after %v", after)
			cuts += cutAfter(t, after, want)
		})
	}
	c.Figure("cuts", "%d", cuts)
	lost(t, c)
}

func cutAfter(t *testing.T, after time.Duration, want []string) int {
	t.Helper()
	d := newDisk(t, 48)
	r := newRig(t, d.options())
	r.data = d.seen()
	cut := make(chan struct{})
	r.repair = func() {
		<-cut // whoever cuts has a file of the disk open
		r.c.End(syscall.SIGKILL)
		d.replug()
	}
	go func() {
		defer close(cut)
		<-time.After(after)
		d.cut()
	}()
	workload(r)
	<-cut
	if r.ends == 0 { // it came when all was done
		r.again()
	}
	r.prove()
	if diff := cmp.Diff(want, r.final()); diff != "" {
		t.Errorf("it ends in another state (-without +with the cut):\n%s", diff)
	}
	return 1
}
