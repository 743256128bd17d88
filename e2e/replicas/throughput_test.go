package replicas

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/nodehitch/nodehitch/e2e/kube/etcdtest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// turn is what one engine does before it is the other's turn: so many calls, of so many
// clients at once.
type turn struct{ atOnce, reports, enrollments int }

// TestThroughput measures one controller alone with bbolt beside one on three members of etcd:
// reports that each say something new, and enrollments. All data is on one disk and flushed.
// The two take turns. No time is asserted: that all that was acknowledged is there, and by how
// many commits, is.
func TestThroughput(t *testing.T) {
	c := results.Begin(t, "replicas", "throughput", "reports and enrollments that come at once share commits, on etcd as with bbolt, and none that is acknowledged is missing")
	rounds, turns, reporters := 1, []turn{{1, 20, 5}, {16, 128, 32}, {64, 256, 64}}, 64
	if results.Full() && !testing.Short() {
		rounds, turns, reporters = 5, []turn{{1, 300, 50}, {16, 1600, 200}, {64, 3200, 384}}, 256
	}
	dir, filesystem := loopback.DiskDir(t)
	c.Figure("data", "of both on one disk (%s), load of the machine before %s", filesystem, loadAverage(t))
	sides := []*side{alone(t, dir), onEtcd(t, dir)}
	for _, s := range sides {
		s.enroll(turn{atOnce: 16, enrollments: reporters}, false)
		s.connect()
	}
	for round := range rounds {
		for _, each := range turns {
			for i := range sides {
				sides[(i+round)%2].report(each)
			}
			for i := range sides {
				sides[(i+round)%2].enroll(each, true)
			}
		}
	}
	for _, s := range sides {
		s.check()
	}
	for _, each := range turns {
		for _, what := range []string{"reports", "enrollments"} {
			compare(c, fmt.Sprintf("%s, %d at once", what, each.atOnce), sides[0].turns[what][each.atOnce], sides[1].turns[what][each.atOnce])
		}
	}
	c.Figure("load of the machine after", "%s", loadAverage(t))
}

// side is a controller with one of the engines.
type side struct {
	*loopback.Controller
	t    *testing.T
	name string
	// commits are those of the database since it was made.
	commits func() int64
	// members are the processes of etcd.
	members []int

	// servers is how many there are, reports how many were sent.
	servers, reports int
	enrolled         []*loopback.Machine
	nodes            []*reporter
	// turns are the measured ones, by what was done and how many were at once.
	turns map[string]map[int][]measured
}

// measured is one turn.
type measured struct {
	calls     int
	took      time.Duration
	commits   int64
	cpu, etcd time.Duration
}

// alone is a controller with bbolt.
func alone(t *testing.T, dir string) *side {
	t.Helper()
	data := filepath.Join(dir, "alone")
	s := &side{t: t, name: "bbolt", Controller: loopback.Open(t, loopback.Options{Settings: throughputSettings(t, data)})}
	s.commits = func() int64 { return boltCommits(t, filepath.Join(data, "store.db")) }
	return s
}

// onEtcd is a controller on an etcd with three members and etcd's defaults.
func onEtcd(t *testing.T, dir string) *side {
	t.Helper()
	cluster := etcdtest.OpenAt(t, dir, make([]etcdtest.Place, 3), "--log-level=error")
	db, err := clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints(), Logger: zap.NewNop(), DialTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	settings := throughputSettings(t, filepath.Join(dir, "shared"))
	settings["store"] = fmt.Sprintf("{etcd: {endpoints: [%s], prefix: %s}}", strings.Join(cluster.Endpoints(), ", "), prefix)
	settings["replica"] = "{id: only}"
	s := &side{t: t, name: "etcd", Controller: loopback.Open(t, loopback.Options{Settings: settings})}
	for _, m := range cluster.Members {
		s.members = append(s.members, m.PID())
	}
	s.commits = func() int64 {
		answer, err := db.Get(t.Context(), prefix+"/head") // each commit writes it
		if err != nil || len(answer.Kvs) != 1 {
			t.Fatalf("reading %s/head: %v", prefix, err)
		}
		return answer.Kvs[0].Version
	}
	return s
}

func throughputSettings(t *testing.T, data string) map[string]string {
	return map[string]string{"metricsListen": loopback.FreeAddress(t), "dataDirectory": data, "pollSeconds": "30", "convergeSeconds": "86400"}
}

// boltCommits is the number of the last transaction, which bbolt writes into one of the two
// pages at the file's begin.
func boltCommits(t *testing.T, path string) int64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var last uint64
	for page := range int64(2) {
		var number [8]byte
		if _, err := f.ReadAt(number[:], page*int64(os.Getpagesize())+64); err != nil {
			t.Fatal(err)
		}
		last = max(last, binary.NativeEndian.Uint64(number[:]))
	}
	return int64(last)
}

// measure makes so many calls, of so many clients at once, each by its number, and counts.
func (s *side) measure(what string, atOnce, calls int, call func(n int) error) {
	s.t.Helper()
	if s.turns == nil {
		s.turns = map[string]map[int][]measured{"reports": {}, "enrollments": {}}
	}
	commits, cpu, etcd, began := s.commits(), s.Usage().CPU, s.etcdCPU(), time.Now()
	s.each(atOnce, calls, call)
	m := measured{calls: calls, took: time.Since(began), commits: s.commits() - commits, cpu: s.Usage().CPU - cpu, etcd: s.etcdCPU() - etcd}
	s.turns[what][atOnce] = append(s.turns[what][atOnce], m)
	switch {
	case m.commits < 1 || atOnce == 1 && m.commits < int64(calls):
		s.t.Errorf("%s: %d commits for %d %s of %d clients", s.name, m.commits, calls, what, atOnce)
	case atOnce == 64 && m.commits >= int64(calls):
		s.t.Errorf("%s: %d commits for %d %s of %d clients: none was shared", s.name, m.commits, calls, what, atOnce)
	}
}

func (s *side) each(atOnce, calls int, call func(n int) error) {
	s.t.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for n := next.Add(1) - 1; n < int64(calls); n = next.Add(1) - 1 {
				if err := call(int(n)); err != nil {
					s.t.Errorf("%s: %v", s.name, err)
				}
			}
		})
	}
	all.Wait()
}

func (s *side) etcdCPU() (all time.Duration) {
	s.t.Helper()
	for _, pid := range s.members {
		u, err := loopback.UsageOf(pid)
		if err != nil {
			s.t.Fatal(err)
		}
		all += u.CPU
	}
	return all
}

// enroll enrolls servers that the controller learns of before.
func (s *side) enroll(o turn, measured bool) {
	s.t.Helper()
	var machines []*loopback.Machine
	var tokens []string
	for left := o.enrollments; left > 0; left -= perInstance {
		instance, n := id(0, s.servers), min(perInstance, left)
		if err := client.Done(s.API.PutInstance(s.t.Context(), instance, nil, spec(s.t, loopback.ClusterParams(""), loopback.Workers(id, s.servers, n)))); err != nil {
			s.t.Fatal(err)
		}
		token := s.JoinToken(instance)
		for range n {
			m := s.Machine(id(1, s.servers))
			m.Dial = fromAddress(s.servers)
			machines, tokens = append(machines, m), append(tokens, token)
			s.servers++
		}
	}
	call := func(n int) error { return machines[n].Enroll(s.t.Context(), tokens[n]) }
	if measured {
		s.measure("enrollments", o.atOnce, len(machines), call)
	} else {
		s.each(o.atOnce, len(machines), call)
	}
	s.enrolled = append(s.enrolled, machines...)
}

// fromAddress connects from the address of the n-th machine.
func fromAddress(n int) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 2, byte(n/250), byte(1+n%250))}}
	return d.DialContext
}

// reporter is a node with the connection that an agent keeps.
type reporter struct {
	api  *client.Controller
	doc  *api.NodeConfig
	mu   sync.Mutex // a node sends one report after the other
	last string     // what it has said last
}

// connect connects the machines that have enrolled by now. They are those that report.
func (s *side) connect() {
	s.t.Helper()
	s.nodes = make([]*reporter, len(s.enrolled))
	s.each(16, len(s.enrolled), func(n int) (err error) {
		m, r := s.enrolled[n], &reporter{}
		r.api, err = client.New(client.Options{BaseURL: s.URL, RootPEM: []byte(m.Trust.RootCertificate), Pin: m.Trust.Pin, Timeout: 20 * time.Second,
			Dial: m.Dial, Certificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &m.Identity, nil }})
		if err == nil {
			s.nodes[n] = r
			r.doc, err = client.Read[api.NodeConfig](r.api.GetNodeConfig(s.t.Context(), nil))
		}
		return err
	})
	if s.t.Failed() {
		s.t.FailNow()
	}
	s.t.Cleanup(func() {
		for _, r := range s.nodes {
			r.api.CloseIdle()
		}
	})
}

// report has the nodes report in turn, each time something that they have never said.
func (s *side) report(o turn) {
	s.t.Helper()
	first := s.reports
	s.measure("reports", o.atOnce, o.reports, func(n int) error {
		n += first
		r := s.nodes[n%len(s.nodes)]
		r.mu.Lock()
		defer r.mu.Unlock()
		status := loopback.Converged(*r.doc)
		for i := range status.Conditions {
			c := &status.Conditions[i]
			c.Status, c.Reason, c.Message = api.ConditionFalse, api.ReasonConverging, fmt.Sprint("pass ", n)
		}
		if err := client.Done(r.api.PutNodeStatus(s.t.Context(), status)); err != nil {
			return err
		}
		r.last = fmt.Sprint("pass ", n)
		return nil
	})
	s.reports += o.reports
}

// check wants all that was acknowledged to be there.
func (s *side) check() {
	s.t.Helper()
	for n, m := range s.enrolled {
		node := s.Node(m.ServerID)
		if has := m.Identity.Leaf.SerialNumber.Text(16); node.CertificateSerial != has {
			s.t.Errorf("%s: %s has the certificate %s, on record is %q", s.name, m.ServerID, has, node.CertificateSerial)
		}
		if n >= len(s.nodes) {
			continue
		}
		said := ""
		if node.Status != nil && len(node.Status.Conditions) > 0 {
			said = node.Status.Conditions[0].Message
		}
		if want := s.nodes[n].last; said != want || said == "" {
			s.t.Errorf("%s: the last report of %s said %q, on record is %q", s.name, m.ServerID, want, said)
		}
	}
}

// compare notes a figure: in a second the median, least and most of all turns.
func compare(c *results.Case, what string, alone, shared []measured) {
	perSecond := func(m measured) float64 { return float64(m.calls) / m.took.Seconds() }
	ratio := make([]float64, len(alone))
	for i := range alone {
		ratio[i] = perSecond(shared[i]) / perSecond(alone[i])
	}
	text := func(all []measured) string {
		each := func(of func(measured) float64) []float64 {
			list := make([]float64, len(all))
			for i := range all {
				list[i] = of(all[i])
			}
			return list
		}
		perCall := func(d func(measured) time.Duration) float64 {
			return median(each(func(m measured) float64 { return float64(d(m).Microseconds()) / 1000 / float64(m.calls) }))
		}
		rates := each(perSecond)
		text := fmt.Sprintf("%.0f/s (%.0f to %.0f), %.2f commits each, CPU %.2f ms each", median(rates), slices.Min(rates), slices.Max(rates),
			median(each(func(m measured) float64 { return float64(m.commits) / float64(m.calls) })), perCall(func(m measured) time.Duration { return m.cpu }))
		if etcd := perCall(func(m measured) time.Duration { return m.etcd }); etcd > 0 {
			text += fmt.Sprintf(" and %.2f ms of etcd", etcd)
		}
		return text
	}
	c.Figure(what, "bbolt %s; etcd %s; ratio %.2f (%.2f to %.2f)", text(alone), text(shared), median(ratio), slices.Min(ratio), slices.Max(ratio))
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
}

// loadAverage is how many processes wanted the processors in the last minute.
func loadAverage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text))[0]
}
