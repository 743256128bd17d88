package cluster

import (
	"fmt"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/peers"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// fleetLimit is how much of push's CPU time nodehitch may take for the larger fleet on
// shared processors.
const fleetLimit = 1.2

// manyWorkers are the larger fleet's.
const manyWorkers = 20

// Fleets by nodehitch, by serial SSH push, and by ansible with all machines at once. On
// processors that all share, what is done side by side takes as long as one after the
// other; with a share for each machine it does not. `make bench-peers` chooses by the
// names of these cases.
func TestFleets(t *testing.T) {
	for _, workers := range []int{2, manyWorkers} {
		for _, installed := range []bool{true, false} {
			for _, shares := range []bool{false, true} {
				s := shape{workers: workers, installed: installed, shares: shares}
				t.Run(s.String(), func(t *testing.T) { fleet(t, s) })
			}
		}
	}
}

func (s shape) String() string {
	packages, processors := "packages not in the image", "shared processors"
	if s.installed {
		packages = "packages in the image"
	}
	if s.shares {
		processors = "a share for each machine"
	}
	return fmt.Sprintf("1+1+%d, %s, %s", s.workers, packages, processors)
}

func fleet(t *testing.T, s shape) {
	shows := "a cluster by nodehitch, by serial SSH push and by ansible with all machines at once"
	// Many machines of small shares one after the other take an hour, and show nothing
	// that four do not.
	serial := s.workers < manyWorkers || !s.shares
	if !serial {
		shows = "a cluster by nodehitch and by ansible with all machines at once"
	}
	r := results.Begin(t, "peers", s.String(), shows)
	peers.Require(t)
	w := newWorld(t)
	pulled := w.pulls(r, s)
	pulled.figure(r, "nodehitch")
	w.control = peers.Ansible(w.World)
	w.pushes(r, s, (*push).byAnsible).figure(r, "ansible")
	if !serial {
		return
	}
	pushed := w.pushes(r, s, (*push).serially)
	pushed.figure(r, "SSH push")
	ratio := pulled.cpu().Seconds() / pushed.cpu().Seconds()
	r.Figure("CPU time beside push", "%.2f", ratio)
	if s.workers == manyWorkers && !s.shares && ratio > fleetLimit {
		t.Errorf("nodehitch takes %.2f of the CPU time of push; at most %.2f", ratio, fleetLimit)
	}
}
