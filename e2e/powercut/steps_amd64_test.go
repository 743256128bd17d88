package powercut

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// TestKilledAtEveryStep kills the real agent with SIGKILL before the first thing that
// it does to the outside once it has opened a blank disk, then before the second, and
// so on until it has reported the format; and mkfs with it, at random moments.
func TestKilledAtEveryStep(t *testing.T) {
	c := results.Begin(t, "powercut", "kill", "the agent is killed before each system call from the blank check to the report: one format, no byte of the other disk lost")
	s := sitetest.Open(t, "../../bin", lab.KindNspawn)
	seed := number(t, envSeed, uint64(time.Now().UnixNano()))
	chance := rand.New(rand.NewPCG(seed, 0))
	a, err := s.API()
	if err != nil {
		t.Fatal(err)
	}
	v, err := newVictim(t.Context(), &life{t: t, site: s, api: a, chance: chance, storage: site.Storage{
		Instance: uuid.NewString(), Server: api.Server{ID: uuid.NewString(), Name: "storage"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := &sweep{t: t, v: v, hits: map[string]int{}}
	path := r.round(t.Context(), step{}, nil)
	waiting := slices.IndexFunc(path, step.mkfs)
	if waiting < 0 {
		t.Fatalf("no step shows when mkfs runs: %v", path)
	}
	// In a full run at every step, and more of those that take mkfs with them.
	together := 2
	if results.Full() {
		together = 20
	}
	began := time.Now()
	for _, s := range path {
		if results.Full() || telling(s) {
			r.round(t.Context(), s, kill)
		}
	}
	for range together {
		r.round(t.Context(), path[waiting], killTogether(chance))
	}
	c.Lost(r.lost)
	c.Figure("seed", "%d", seed)
	c.Figure("steps of a format", "%d", len(path))
	c.Figure("kills", "%d", r.kills)
	c.Figure("left behind", "%s", r.histogram())
	c.Figure("a kill", "%.1f s", time.Since(began).Seconds()/float64(max(1, r.kills)))
}

// kill is kill -9 of the agent. Systemd then kills what it has started.
func kill(pid int) { _ = unix.Kill(pid, unix.SIGKILL) }

// telling are the steps of a short run: with them something becomes true for good.
func telling(s step) bool {
	return s.record() || s.mkfs() || s.call == "fsync" && s.on == "the volume"
}

// sweep is one run of kills after the other.
type sweep struct {
	t     *testing.T
	v     *victim
	kills int
	lost  int64
	hits  map[string]int
}

// round is one format with one kill.
func (r *sweep) round(ctx context.Context, at step, kill func(int)) []step {
	r.t.Helper()
	path, killed, err := r.v.format(ctx, at, kill)
	left := ""
	if err == nil {
		left, err = r.v.left(ctx)
	}
	var lost int64
	if err == nil {
		lost, err = r.v.recover(ctx)
	}
	r.lost += lost
	if killed {
		r.kills++
		r.hits[left]++
		r.t.Logf("killed before %s: %s", at, left)
	} else if at.n > 0 {
		r.t.Errorf("the agent did not reach %s, before which it was to be killed", at)
	}
	if err != nil {
		r.v.show()
		r.t.Fatalf("killed before %s: %v", at, err)
	}
	return path
}

func (r *sweep) histogram() string {
	var parts []string
	for left, n := range r.hits {
		parts = append(parts, fmt.Sprintf("%d × %s", n, left))
	}
	slices.SortFunc(parts, func(a, b string) int { return cmp.Compare(b, a) })
	return strings.Join(parts, "; ")
}
