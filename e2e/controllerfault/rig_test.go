package controllerfault

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/invariant"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/files"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// rig is a controller that may end at any moment, and what it has acknowledged.
type rig struct {
	t *testing.T
	c *loopback.Controller
	// record counts what is checked.
	record *tally
	// ledger is everything acknowledged that must still hold.
	ledger facts
	// stage is what is being asked for.
	stage string
	// steps counts what was asked for; onStep, if there is one, is told of each before.
	steps  int
	onStep func(n int)
	// ends counts how often the controller ended or was killed.
	ends int
	// data is where the test sees the data directory.
	data string
	// repair repairs what was broken before the next start. If there is something to repair,
	// errors that look temporary are retried once.
	repair func()
}

// newRig starts with an empty data directory and the given environment, in which the
// controller may end before it is ready.
func newRig(t *testing.T, record *tally, o loopback.Options, env ...string) *rig {
	t.Helper()
	r := &rig{t: t, record: record, c: loopback.Open(t, o), ledger: facts{}, stage: "the first start"}
	r.data = r.c.Data()
	if len(env) == 0 {
		return r
	}
	r.c.End(syscall.SIGKILL)
	if err := os.RemoveAll(r.data); err != nil {
		t.Fatal(err)
	}
	r.c.SetEnv(env...)
	if err := r.c.TryStart(t.Context()); err != nil {
		r.ends++
		r.again()
	}
	return r
}

// step repeats a request until it is acknowledged, like clients: it retries if there was
// no answer, after a temporary error (any internal error, if the disk may have lost its
// power), and while the node's document is being made anew. The facts named in over end
// with the step; they may hold or not while it runs.
func (r *rig) step(name string, over []string, do func() error, facts facts) {
	r.t.Helper()
	r.stage = name
	if r.onStep != nil {
		r.onStep(r.steps)
	}
	r.steps++
	for _, fact := range over {
		if _, known := r.ledger[fact]; !known {
			r.t.Fatalf("%s: there is no fact %q to put an end to", name, fact)
		}
		delete(r.ledger, fact)
	}
	for tries := 0; ; tries++ {
		err := do()
		if err == nil {
			break
		}
		status := client.Status(err)
		if passes := status == 0 || status == 503 || status == 500 && r.repair != nil || outdated(err); !passes || tries == 20 {
			r.t.Fatalf("%s: %v", name, err)
		}
		r.wait(err, tries)
	}
	maps.Copy(r.ledger, facts)
}

// wait lets the controller come back if it has ended, or some time pass.
func (r *rig) wait(err error, tries int) {
	r.t.Helper()
	limit := 10 * time.Second
	if client.Status(err) == 503 || outdated(err) {
		limit = 100 * time.Millisecond
	}
	select {
	case <-r.c.Exited():
		r.ends++
		r.again()
	case <-time.After(limit):
		// A document may take its time, and is never made on a disk without power.
		if r.repair != nil && r.ends == 0 && (!outdated(err) || tries == 10) {
			r.ends++
			r.again()
		}
	}
}

// outdated is the refusal of a request that was made for an older document.
func outdated(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Type == api.ProblemNoPermit && strings.HasSuffix(p.Detail, "read the configuration again")
}

// again restarts the controller, like init. It checks the store on the disk before, and
// the ledger after.
func (r *rig) again() {
	r.t.Helper()
	r.t.Logf("it ended in %q", r.stage)
	if r.repair != nil {
		r.repair()
	}
	r.c.SetEnv()
	r.checkStore()
	r.c.Start()
	r.checkLedger()
}

// checkStore checks that the records are consistent.
func (r *rig) checkStore() {
	r.t.Helper()
	r.read(func(s *store.Store) error {
		blobs, err := files.OpenBlobs(r.data, 1<<30, time.Now)
		if err != nil {
			return err
		}
		broken, err := invariant.Check(s, blobs.Size)
		for _, sentence := range broken {
			r.t.Errorf("killed in %q: %s", r.stage, sentence)
		}
		return err
	})
}

// read opens the store of a controller that does not run; it does nothing if there is no
// store yet.
func (r *rig) read(fn func(*store.Store) error) {
	r.t.Helper()
	path := filepath.Join(r.data, "store.db")
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		return
	}
	s, err := store.Open(store.Options{Path: path, Key: store.KeySource{File: filepath.Join(r.data, "seal.key"), Create: true}})
	if err == nil {
		err = fn(s)
		_ = s.Close()
	}
	if err != nil {
		r.t.Fatalf("killed in %q: %v", r.stage, err)
	}
}

// checkLedger checks that everything acknowledged still holds.
func (r *rig) checkLedger() {
	r.t.Helper()
	for _, fact := range slices.Sorted(maps.Keys(r.ledger)) {
		if err := r.record.check(r.ledger[fact]); err != nil {
			r.t.Errorf("killed in %q: it does not hold any more: %s: %v", r.stage, fact, err)
		}
	}
}

func failpointAt(point string, n int) string { return fmt.Sprintf("%s=%s:%d", failpointEnv, point, n) }
