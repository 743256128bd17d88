package replicas

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/crowd"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

const (
	// pollsOfANode is how many connections a node may have. They take a fraction of the time that
	// as many agents need to enroll.
	pollsOfANode = 8
	// pollsVariable replaces how many polls there are.
	pollsVariable = "NODEHITCH_POLLS"
)

// TestHeld has controllers hold polls: first both followers, of which the leader holds none, then the
// leader as many as each of them.
func TestHeld(t *testing.T) {
	c := results.Begin(t, "replicas", "held polls", "a poll that is held at a follower costs the leader its request alone")
	polls := 3 * 4 * pollsOfANode
	if results.Full() && !testing.Short() {
		polls = 18000 // this process has a descriptor for each, and may have 20,000
	}
	if named := os.Getenv(pollsVariable); named != "" {
		n, err := strconv.Atoi(named)
		if err != nil || n < 3*pollsOfANode {
			t.Fatalf("%s is %q, expected a number from %d", pollsVariable, named, 3*pollsOfANode)
		}
		polls = n
	}
	each := polls / 3 / pollsOfANode * pollsOfANode
	w := (&installation{t: t, size: 3}).open(3, 3, nil)
	leader := w.leader()
	h := &holding{w: w, each: each, usual: map[*controller]int{}, empty: map[*controller]loopback.Usage{}}
	followers := []*controller{}
	for _, at := range w.controllers {
		if at != leader {
			followers = append(followers, at)
		}
		loopback.Until(t, "the agents' polls are held", func() bool { return w.heldAt(at) == 1 })
		h.usual[at], h.empty[at] = 1, w.usage(at)
	}
	c.Figure("polls", "%d at each of three controllers, held for %d s", each, pollSeconds)
	for _, at := range followers {
		h.hold(at)
	}
	if n := w.heldAt(leader); n != 1 {
		t.Errorf("while the followers hold %d polls, the leader holds %d; want that of its own agent", 2*each, n)
	}
	c.Figure("memory", "a follower %d and %d KiB for each of its polls; the leader %.1f KiB for each poll of a follower", h.perPoll(followers[0]), h.perPoll(followers[1]),
		float64(w.usage(leader).Resident-h.empty[leader].Resident)/1024/float64(2*each))
	used := w.spend(2 * pollSeconds * time.Second)
	polled := float64(2 * each * 2)
	c.Figure("CPU of a poll", "%.2f ms of a follower's, %.2f ms of the leader's, %.2f ms of etcd's members", 1000*(used[followers[0].name]+used[followers[1].name])/polled,
		1000*used[leader.name]/polled, 1000*used["etcd"]/polled)
	alone := w.usage(leader)
	h.hold(leader)
	c.Figure("beside that", "the leader %d KiB for each poll of its own", (w.usage(leader).Resident-alone.Resident)>>10/int64(each))
	used = w.spend(2 * pollSeconds * time.Second)
	c.Figure("CPU with all", "%.0f, %.0f and %.0f%% of a processor for both followers and the leader, %.0f%% for etcd", 100*used[followers[0].name]/(2*pollSeconds), 100*used[followers[1].name]/(2*pollSeconds),
		100*used[leader.name]/(2*pollSeconds), 100*used["etcd"]/(2*pollSeconds))
	for _, at := range w.controllers {
		if n := w.heldAt(at); n < each*9/10 {
			t.Errorf("%s holds %d of %d polls at the end", at.name, n, each)
		}
	}
}

// holding makes polls of nodes.
type holding struct {
	w     *installation
	each  int
	nodes int
	usual map[*controller]int
	empty map[*controller]loopback.Usage
}

// perPoll is the memory of a controller for each of its polls, in KiB.
func (h *holding) perPoll(at *controller) int64 {
	return (h.w.usage(at).Resident - h.empty[at].Resident) >> 10 / int64(h.each)
}

// hold enrolls nodes and makes their polls at one controller, until it holds all of them.
func (h *holding) hold(at *controller) {
	w := h.w
	w.t.Helper()
	c := w.caller(0)
	nodes := h.each / pollsOfANode
	var making sync.WaitGroup
	work := make(chan func() error)
	for range 8 {
		making.Go(func() {
			for each := range work {
				if err := each(); err != nil {
					w.t.Error(err)
				}
			}
		})
	}
	for from := 0; from < nodes; from += perInstance {
		first, n := 200000+h.nodes, min(perInstance, nodes-from)
		instance := id(6, h.nodes)
		w.must(c.until(func(api *client.Controller) error {
			return client.Done(api.PutInstance(w.t.Context(), instance, nil, spec(w.t, loopback.ClusterParams(""), loopback.Workers(id, first, n))))
		}))
		token := w.joinToken(c, instance)
		for i := range n {
			work <- func() error { return w.pollsOf(at, token, first+i) }
		}
		h.nodes += n
	}
	close(work)
	making.Wait()
	loopback.Until(w.t, "all polls at "+at.name+" are held", func() bool { return w.heldAt(at) == h.each+h.usual[at] })
}

// pollsOf enrolls a node and makes its polls.
func (w *installation) pollsOf(at *controller, token string, n int) error {
	dial := w.clients.dialFrom(w.clients.machine(n - 200000 + 1000))
	m := &loopback.Machine{ServerID: id(1, n), Key: testca.NewKey(), Controller: at.url, Trust: w.trust, Dial: dial}
	if _, err := crowd.Again(func() (struct{}, error) { return struct{}{}, m.Enroll(w.t.Context(), token) }); err != nil {
		return err
	}
	m.Identity.Certificate = m.Identity.Certificate[:1] // all that an agent presents
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(w.trust.RootCertificate))
	config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{m.Identity}, MinVersion: tls.VersionTLS13, ServerName: at.address.String()}
	tag := ""
	for range pollsOfANode {
		conn, err := crowd.Again(func() (*tls.Conn, error) {
			raw, err := dial(w.t.Context(), "tcp", strings.TrimPrefix(at.url, "https://"))
			if err != nil {
				return nil, err
			}
			conn := tls.Client(raw, config)
			return conn, conn.HandshakeContext(w.t.Context())
		})
		if err != nil {
			return err
		}
		w.t.Cleanup(func() { _ = conn.Close() })
		if tag, err = crowd.Poll(conn, tag); err != nil {
			return err
		}
	}
	return nil
}

// heldAt is how many polls a controller holds.
func (w *installation) heldAt(at *controller) int {
	w.t.Helper()
	web := &http.Client{Transport: &http.Transport{DialContext: w.clients.dial, DisableKeepAlives: true}, Timeout: 30 * time.Second}
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+at.metrics()+"/metrics", nil)
	w.must(err)
	answer, err := web.Do(r)
	w.must(err)
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if value, is := strings.CutPrefix(lines.Text(), "nodehitch_long_polls_in_flight "); is {
			n, err := strconv.ParseFloat(value, 64)
			w.must(err)
			return int(n)
		}
	}
	return 0
}

func (w *installation) usage(at *controller) loopback.Usage {
	w.t.Helper()
	at.mu.Lock()
	pid := at.process.Process.Pid
	at.mu.Unlock()
	u, err := loopback.UsageOf(pid)
	w.must(err)
	return u
}

// spend is the processor time that each controller, and etcd's members together, take in a
// time, in seconds.
func (w *installation) spend(over time.Duration) map[string]float64 {
	w.t.Helper()
	now := func() map[string]float64 {
		all := map[string]float64{}
		for _, at := range w.controllers {
			all[at.name] = w.usage(at).CPU.Seconds()
		}
		for _, m := range w.etcd.Members {
			u, err := loopback.UsageOf(m.PID())
			w.must(err)
			all["etcd"] += u.CPU.Seconds()
		}
		return all
	}
	before := now()
	sleep(w.t.Context(), over) // what is measured is a time
	after := now()
	for name := range after {
		after[name] -= before[name]
	}
	return after
}
