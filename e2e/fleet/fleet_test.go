package fleet

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/crowd"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
)

const (
	// perInstance is how many servers a VNF instance has.
	perInstance = 100
	// perCrowd is how many agents share a process.
	perCrowd = 5000
)

// fleet is a controller and its agents.
type fleet struct {
	*loopback.Controller
	t         testing.TB
	agents    int
	instances []string
	crowds    []*crowd.Crowd
	// seen is the tally of all crowds; what counts since the last one adds up.
	seen crowd.Tally
}

// open starts a controller with the default poll interval, which does not plan again during the
// test. Its data is on a disk, as in production; the filesystem is one of the figures.
func open(t testing.TB, c *results.Case) *fleet {
	t.Helper()
	f := &fleet{t: t}
	disk, filesystem := loopback.DiskDir(t)
	c.Figure("controller's data", "on %s", filesystem)
	f.Controller = loopback.Open(t, loopback.Options{Settings: map[string]string{
		"metricsListen": loopback.FreeAddress(t),
		"dataDirectory": filepath.Join(disk, "data"),
		"pollSeconds":   "30", "convergeSeconds": "86400",
	}})
	return f
}

// enroll makes instances for so many servers and starts their agents, all at once.
func (f *fleet) enroll(agents int) {
	f.t.Helper()
	var members []crowd.Member
	for f.agents < agents {
		instance := id(0, len(f.instances))
		n := min(perInstance, agents-f.agents)
		f.instances = append(f.instances, instance)
		f.PutParams(instance, loopback.ClusterParams(""), loopback.Workers(id, f.agents, n))
		token := f.JoinToken(instance)
		for range n {
			members = append(members, crowd.Member{ID: id(1, f.agents), Token: token})
			f.agents++
		}
	}
	from := f.agents - len(members)
	for chunk := range slices.Chunk(members, perCrowd) {
		f.crowds = append(f.crowds, crowd.Start(f.t, crowd.Order{
			Config: f.AgentConfig(f.instances[0]), Dir: f.quickDir(), Members: chunk, Network: netip.MustParsePrefix("127.1.0.0/16"), From: from}))
		from += len(chunk)
	}
}

// quickDir is a folder in memory, if there is one: the disks of thousands of
// machines are not this machine's.
func (f *fleet) quickDir() string {
	dir, err := os.MkdirTemp("/dev/shm", "nodehitch-fleet-")
	if err != nil {
		return f.t.TempDir()
	}
	f.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (f *fleet) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// takeTally asks every crowd for its tally, and adds them up.
func (f *fleet) takeTally() crowd.Tally {
	f.t.Helper()
	all := &f.seen
	all.Connected, all.Open, all.Digests = 0, 0, map[string]int{}
	for _, each := range f.crowds {
		t, err := each.Tally()
		f.must(err)
		all.Add(t)
	}
	return *all
}

// resetTally drops what was counted until now.
func (f *fleet) resetTally() {
	f.takeTally()
	f.seen = crowd.Tally{}
}

// agentsCPU is the processor time that the agents have taken.
func (f *fleet) agentsCPU() (all time.Duration) {
	f.t.Helper()
	for _, each := range f.crowds {
		u, err := loopback.UsageOf(each.PID)
		f.must(err)
		all += u.CPU
	}
	return all
}

// await waits until the crowds are as wanted, and returns how long that took.
func (f *fleet) await(what string, limit time.Duration, ok func(crowd.Tally) bool) time.Duration {
	f.t.Helper()
	return f.awaitEvery(100*time.Millisecond, what, limit, ok)
}

// awaitEvery is await with other pauses.
func (f *fleet) awaitEvery(pause time.Duration, what string, limit time.Duration, ok func(crowd.Tally) bool) time.Duration {
	f.t.Helper()
	began := time.Now()
	deadline := time.After(limit)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		t := f.takeTally()
		if ok(t) {
			return time.Since(began)
		}
		select {
		case <-tick.C:
		case <-deadline:
			f.t.Fatalf("after %v still not: %s; %d of %d agents are connected, %d documents are in force; errors in their logs:\n%s",
				limit, what, t.Connected, f.agents, len(t.Digests), t.FirstErrors())
		}
	}
}

// connected waits until every agent is.
func (f *fleet) connected(limit time.Duration) time.Duration {
	f.t.Helper()
	return f.await("every agent is connected", limit, func(t crowd.Tally) bool { return t.Connected == f.agents })
}

// held waits until every agent's poll is held.
func (f *fleet) held(limit time.Duration) {
	f.t.Helper()
	f.awaitEvery(time.Second, "every agent's poll is held", limit, func(crowd.Tally) bool {
		return int(f.metric("nodehitch_long_polls_in_flight")) == f.agents
	})
}

// large is how many agents show something about memory, and make a scrape expensive.
const large = 1000

// settled waits until the agents have their documents and nothing to report. A large fleet
// says so itself: each agent has one connection, that of its poll. A scrape of the metrics
// reads every node, so whoever waits by scrapes measures those as the cost of the agents.
func (f *fleet) settled(limit time.Duration) {
	f.t.Helper()
	if f.agents < large {
		f.held(limit)
		return
	}
	f.await("every agent has the connection of its poll, and no other", limit, func(t crowd.Tally) bool {
		return t.Connected == f.agents && t.Open == f.agents
	})
}

func (f *fleet) metric(name string) float64 {
	f.t.Helper()
	all, err := f.Metrics()
	f.must(err)
	return all[name]
}

// peak is the most in any second: of ten tenths in a row.
func peak(tenths map[int64]int) int {
	most := 0
	for at := range tenths {
		sum := 0
		for i := range int64(10) {
			sum += tenths[at+i]
		}
		most = max(most, sum)
	}
	return most
}

func sum(tenths map[int64]int) (n int) {
	for _, each := range tenths {
		n += each
	}
	return n
}

// id is the n-th UUID of a kind.
func id(kind, n int) string { return fmt.Sprintf("f1ee7000-0000-4000-8%03d-%012d", kind, n) }
