package fleet

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/trust/enrollment"
	"github.com/nodehitch/nodehitch/e2e/crowd"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// TestRestart of the controller under a small fleet; the large one is a long case.
func TestRestart(t *testing.T) {
	for _, size := range []struct {
		name   string
		agents int
		long   bool
	}{{"200 agents", 200, false}, {"2000 agents", 2000, true}, {"10000 agents", 10000, true}} {
		t.Run(size.name, func(t *testing.T) {
			c := results.Begin(t, "fleet", "restart under "+size.name, "all agents reconnect, spread over time, and none has to enroll again")
			if size.long {
				results.LongOnly(t)
			}
			restart(t, c, size.agents)
		})
	}
}

func restart(t *testing.T, c *results.Case, agents int) {
	f := open(t, c)
	empty := f.Usage().Resident
	c.Figure("RSS without agents", "%d MiB", empty>>20)
	f.enroll(agents)
	c.Figure("all enrolled after", "%.1f s", f.connected(30*time.Minute).Seconds())
	f.settled(2 * time.Minute)
	seen, cpu := f.takeTally(), f.Usage().CPU
	f.held(2 * time.Minute)
	c.Figure("CPU of the enrollment", "%.1f s, %.1f ms per agent; the agents' own %.1f s", cpu.Seconds(), perAgent(cpu, agents), f.agentsCPU().Seconds())
	c.Figure("certificates", "%.2f per agent", float64(f.enrollments())/float64(agents))
	c.Figure("connections", "%.2f per agent", float64(sum(seen.Dials))/float64(agents))
	if n, asked := f.enrollments(), f.enrollRequests(); n < agents || asked < n { // more, if an answer was lost
		t.Errorf("%d of %d agents have enrolled by %d requests", n, agents, asked)
	}
	if size := float64(agents); agents >= large {
		u := f.Usage()
		c.Figure("RSS after the enrollment", "at most %d MiB, %d at its end, %d of them pages of files", u.Peak>>20, u.Resident>>20, u.Mapped>>20)
		rest := f.collected()
		c.Figure("RSS after garbage collection", "%d MiB, %d of them pages of files, %.0f KiB per agent", rest>>20, f.Usage().Mapped>>20, float64(rest-empty)/1024/size)
	}
	t.Logf("errors in the agents' logs while they enrolled:\n%s", seen.FirstErrors())
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		name := map[syscall.Signal]string{syscall.SIGKILL: "kill -9", syscall.SIGTERM: "SIGTERM"}[signal]
		f.resetTally()
		f.End(signal)
		f.Start()
		back := f.await("every agent is back", 5*time.Minute, func(t crowd.Tally) bool {
			return sum(t.Dials) >= agents && t.Connected == agents
		})
		f.settled(2 * time.Minute)
		seen, cpu := f.takeTally(), f.Usage().CPU
		f.held(2 * time.Minute)
		u := f.Usage()
		c.Figure(name+": all back after", "%.1f s", back.Seconds())
		c.Figure("connections", "%.2f per agent, at most %d in a second", float64(sum(seen.Dials))/float64(agents), peak(seen.Dials))
		c.Figure("attempts while it was down", "%.2f per agent", float64(sum(seen.Refused))/float64(agents))
		c.Figure("polls", "%.2f per agent", f.polls()/float64(agents))
		c.Figure("handshakes", "at most %.0f at a time", f.metric("nodehitch_tls_handshakes_in_flight_max"))
		c.Figure("CPU", "%.1f s, %.1f ms per agent", cpu.Seconds(), perAgent(cpu, agents))
		if most := peak(seen.Dials); agents >= large && most > agents/3 {
			t.Errorf("%d of %d agents came back in one second", most, agents)
		}
		c.Figure("RSS with all polls held", "%d MiB, %d of them pages of files, %.0f KiB per agent, at most %d MiB", u.Resident>>20, u.Mapped>>20,
			float64(u.Resident-empty)/1024/float64(agents), u.Peak>>20)
		if n := f.enrollRequests(); n != 0 {
			t.Errorf("after %s agents asked %d times to enroll anew", name, n)
		}
	}
}

// collected waits until the controller's runtime has collected its garbage, which it does
// every two minutes if nothing else happens, and has given memory back to the kernel for as
// long as it gave any. It returns the bytes that the process then holds.
func (f *fleet) collected() int64 {
	f.t.Helper()
	const collections = "go_gc_duration_seconds_count"
	before := f.metric(collections)
	least, since := f.Usage().Resident, time.Now()
	f.await("the runtime has given memory back", 5*time.Minute, func(crowd.Tally) bool {
		if now := f.Usage().Resident; now < least {
			least, since = now, time.Now()
		}
		return f.metric(collections) > before && time.Since(since) > 10*time.Second
	})
	return least
}

// perAgent is each agent's part in milliseconds.
func perAgent(cpu time.Duration, agents int) float64 { return 1000 * cpu.Seconds() / float64(agents) }

// enrollments are the certificates that were issued to servers since the controller's start.
func (f *fleet) enrollments() (n int) {
	f.t.Helper()
	all, err := f.Metrics()
	f.must(err)
	for _, result := range []string{enrollment.EventEnrolled, enrollment.EventReissued} {
		n += int(all[`nodehitch_enrollments_total{result="`+result+`"}`])
	}
	return n
}

// enrollRequests are the requests to enroll since the controller's start, those that were
// refused included.
func (f *fleet) enrollRequests() (n int) {
	f.t.Helper()
	all, err := f.Metrics()
	f.must(err)
	for name, count := range all {
		if strings.HasPrefix(name, "nodehitch_http_requests_total{") && strings.Contains(name, `operation="enroll"`) {
			n += int(count)
		}
	}
	return n
}

// polls are those that were answered since the controller's start.
func (f *fleet) polls() (n float64) {
	f.t.Helper()
	all, err := f.Metrics()
	f.must(err)
	for _, code := range []string{"200", "304"} {
		n += all[`nodehitch_http_requests_total{code="`+code+`",operation="getNodeConfig"}`]
	}
	return n
}
