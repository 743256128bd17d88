package serve

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/telemetry"
	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// tmpfs is what statfs(2) calls a file system in memory.
const tmpfs = 0x01021994

// Reports that nodes send at the same time, each with something new: through the listener,
// TLS and HTTP to the disk. Beside them as many writers put values of the same size into a
// bbolt of their own by Batch, the fastest that bbolt has. The two take turns within one
// run; ofBatch is the controller's reports in a second by bbolt's puts.
func BenchmarkReports(b *testing.B) {
	for _, nodes := range []int{16, 64} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			r := newReports(b, nodes)
			const each = 10 // reports of a node before it is the other's turn
			var took [2]time.Duration
			var cpu time.Duration
			reports := 0
			for b.Loop() {
				before := cpuTime(b)
				took[0] += r.atOnce(func(n, k int) error { return r.report(n, reports+k) }, each)
				cpu += cpuTime(b) - before
				took[1] += r.atOnce(r.batch, each)
				reports += each
			}
			all := float64(reports * nodes)
			b.ReportMetric(all/took[0].Seconds(), "reports/s")
			b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "ofBatch")
			b.ReportMetric(float64(cpu.Microseconds())/all, "cpu-µs/report") // the nodes' part too
		})
	}
}

type reports struct {
	b       *testing.B
	nodes   []*client.Controller
	configs []wire.NodeConfig
	db      *bbolt.DB
	value   []byte // as large as the record of a node
}

// newReports is a controller as it is run, on a disk, and nodes that have enrolled.
func newReports(b *testing.B, nodes int) *reports {
	b.Helper()
	c := config.Default()
	c.DataDirectory, c.Names, c.Attestation.Mode = onDisk(b), []string{"127.0.0.1"}, config.AttestToken
	c.SealKeyFile = filepath.Join(c.DataDirectory, "seal.key")
	listener, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	must(b, err)
	c.AdvertiseURLs = []string{"https://" + listener.Addr().String()}
	s, err := open(c, nil, telemetry.New("test"), time.Now, slog.New(slog.DiscardHandler))
	must(b, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx, listeners{HTTPS: listener}, slog.New(slog.DiscardHandler)) }()
	r := &reports{b: b}
	r.db, err = bbolt.Open(filepath.Join(onDisk(b), "raw.db"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	must(b, err)
	b.Cleanup(func() {
		for _, n := range r.nodes {
			n.CloseIdle()
		}
		stop()
		must(b, <-ended)
		must(b, s.Store.Close())
		must(b, r.db.Close())
	})
	r.enroll(s, c.AdvertiseURLs[0], nodes)
	must(b, s.Store.View(func(tx *store.Tx) error {
		node, _, err := tx.Nodes().Get(benchServer(0))
		r.value = append([]byte(node.Config), make([]byte, 1500)...) // its other members, in JSON
		return err
	}))
	must(b, r.db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("nodes")); return err }))
	return r
}

// onDisk is a folder of the benchmark that is on a disk.
func onDisk(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	var fs syscall.Statfs_t
	must(b, syscall.Statfs(dir, &fs))
	if fs.Type == tmpfs {
		b.Skipf("%s is in memory: set TMPDIR to a directory on a disk", dir)
	}
	return dir
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func benchServer(n int) string { return fmt.Sprintf("f1ee7000-0000-4000-8001-%012d", n) }

func (r *reports) enroll(s *services, url string, nodes int) {
	r.b.Helper()
	const instance = "f1ee7000-0000-4000-8000-000000000000"
	topology := &wire.Topology{StackStatus: "CREATE_COMPLETE"}
	for n := range nodes {
		topology.Servers = append(topology.Servers, wire.Server{ID: benchServer(n), Name: fmt.Sprint("worker", n),
			ConnectionPoints: []wire.ConnectionPoint{{Name: "worker_CP", Addresses: []string{fmt.Sprintf("10.0.%d.%d", n>>8, n&255)}}}})
	}
	_, _, err := s.Lifecycle.Instances.PutInstance(r.b.Context(), instance, wire.InstanceSpec{Topology: topology, AdditionalParams: json.RawMessage(`{
		"k8s_cluster_installation_param": {"script_path": "Scripts/install.sh",
			"master_node": {"ssh_cp_name": "master_CP", "nic_cp_name": "master_CP", "cluster_cp_name": "master_CP"},
			"worker_node": {"ssh_cp_name": "worker_CP", "nic_cp_name": "worker_CP"}}}`)})
	must(r.b, err)
	token, err := s.Enrollment.JoinToken(r.b.Context(), instance)
	must(r.b, err)
	for n := range nodes {
		o := client.Options{BaseURL: url, RootPEM: []byte(s.Authority.RootPEM()), Pin: s.Authority.Pin()}
		unauthenticated, err := client.New(o)
		must(r.b, err)
		key := testca.NewKey()
		issued, err := client.Read[wire.IssuedCertificate](unauthenticated.Enroll(r.b.Context(),
			wire.EnrollRequest{ServerID: benchServer(n), CertificateRequest: testca.Request(key, nil)}, client.Bearer(token)))
		must(r.b, err)
		unauthenticated.CloseIdle()
		identity, err := testca.Identity(issued.Certificate, key)
		must(r.b, err)
		o.Certificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &identity, nil }
		node, err := client.New(o)
		must(r.b, err)
		doc, err := client.Read[wire.NodeConfig](node.GetNodeConfig(r.b.Context(), nil))
		must(r.b, err)
		r.nodes, r.configs = append(r.nodes, node), append(r.configs, *doc)
	}
}

// report sends the k-th report of a node, which is another than the one before.
func (r *reports) report(n, k int) error {
	doc := &r.configs[n]
	s := wire.NodeStatus{Epoch: doc.Epoch, ObservedGeneration: doc.Generation, ObservedDigest: doc.Digest()}
	for _, each := range append([]string{wire.ConditionReady}, doc.ConditionTypes()...) {
		s.Conditions = append(s.Conditions, wire.Condition{Type: each, Status: wire.ConditionFalse, Reason: wire.ReasonConverging,
			Message: fmt.Sprint("pass ", k), LastTransitionTime: time.Now()})
	}
	return client.Done(r.nodes[n].PutNodeStatus(r.b.Context(), s))
}

// batch puts a node's value into bbolt, changed.
func (r *reports) batch(n, k int) error {
	return r.db.Batch(func(tx *bbolt.Tx) error {
		value := append([]byte{byte(k)}, r.value...)
		return tx.Bucket([]byte("nodes")).Put([]byte(benchServer(n)), value)
	})
}

// atOnce does each so many times for every node, the nodes at the same time.
func (r *reports) atOnce(do func(n, k int) error, each int) time.Duration {
	began := time.Now()
	var all sync.WaitGroup
	for n := range r.nodes {
		all.Go(func() {
			for k := range each {
				if err := do(n, k); err != nil {
					r.b.Error(err)
				}
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

// cpuTime is what this process has used of the processors.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
