package powercut

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
)

const (
	envSeed, envCuts, envMachines = "NODEHITCH_SEED", "NODEHITCH_CUTS", "NODEHITCH_MACHINES"
	fullCuts                      = 100
	// machines is how many there are at a time.
	machines = 2
)

func TestPowerCuts(t *testing.T) {
	c := results.Begin(t, "powercut", "vm", "the power is cut at random moments, from the blank disk on: one format, no acknowledged byte lost")
	seed := number(t, envSeed, uint64(time.Now().UnixNano()))
	chance := rand.New(rand.NewPCG(seed, 1))
	plan := few(chance)
	if cuts := int(number(t, envCuts, 0)); cuts > 0 {
		plan = lives(chance, cuts)
	} else if results.Full() {
		plan = lives(chance, fullCuts)
	}
	t.Logf("%s=%d", envSeed, seed)
	s := sitetest.Open(t, "../../bin", lab.KindVM)
	r := &runner{t: t, site: s, seed: seed, machines: int(number(t, envMachines, machines))}
	began := time.Now()
	r.all(plan)

	c.Lost(r.lost)
	if least := enoughRecords * ofWriting(plan); r.readBack < max(1, least) {
		t.Errorf("%d acknowledged records were read back after the cuts, expected at least %d", r.readBack, max(1, least))
	}
	if atWork := r.took.cuts() - r.took.idle; atWork < planned(plan)/2 {
		t.Errorf("%d of %d cuts hit work", atWork, planned(plan))
	}
	c.Figure("seed", "%d", seed)
	c.Figure("cuts", "%d; %d came after the work", r.took.cuts(), r.took.idle)
	c.Figure("phases hit", "%s", r.took.histogram())
	c.Figure("cuts while records were written", "%d", r.took.whileWriting)
	c.Figure("a cut", "%.1f s with %d machines side by side", time.Since(began).Seconds()/float64(max(1, r.took.cuts())), r.machines)
	c.Figure("boot", "%.1f s", median(r.took.boots).Seconds())
	c.Figure("from boot to served", "%.1f s", median(r.took.converged).Seconds())
	c.Figure("records", "%d acknowledged, %d of them read back after the last cut", r.saved, r.readBack)
	c.Figure("write cache", "%.1f MiB lost of %.1f", mib(r.took.lost), mib(r.took.cached))
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// number is that of an environment variable.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// runner lives lives side by side.
type runner struct {
	t        *testing.T
	site     *site.Site
	seed     uint64
	machines int

	mu              sync.Mutex
	took            tally
	saved, readBack int
	lost            int64
}

func (r *runner) all(plan [][]moment) {
	next := make(chan int)
	var workers sync.WaitGroup
	for range r.machines {
		workers.Go(func() {
			for i := range next {
				if err := r.live(r.t.Context(), i, plan[i]); err != nil {
					r.t.Errorf("life %d (cuts %v): %v", i, plan[i], err)
				}
			}
		})
	}
	for i := range plan {
		next <- i
	}
	close(next)
	workers.Wait()
}

// live lives one life, and adds up its result.
func (r *runner) live(ctx context.Context, i int, cuts []moment) error {
	l, err := newLife(ctx, r.t, r.site, fmt.Sprintf("cut-%d", i), rand.New(rand.NewPCG(r.seed, uint64(i)+2)))
	if err != nil {
		return err
	}
	var lost int64
	err = l.through(ctx, cuts, &lost)
	if err != nil {
		l.show()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took.join(l.took)
	saved := 0
	for _, v := range l.volumes {
		saved += l.saved(v)
		r.readBack += v.readBack
	}
	r.saved += saved
	r.lost += lost
	r.t.Logf("life %d: aimed at %v, hit %s; %d records, %d bytes lost; %d cuts by now", i, cuts, l.took.histogram(), saved, lost, r.took.cuts())
	return errors.Join(err, l.end())
}
