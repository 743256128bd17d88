package serve

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/telemetry"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

const scraped = "f1ee7000-0000-4000-8000-000000000000"

// What a scrape allocates is what it takes to decode each node once. To decode them twice, to
// keep them in a list, and to decode whole operations takes more.
func TestAScrapeDecodesEachNodeOnce(t *testing.T) {
	const nodes, operations = 400, 20
	s := openScraped(t, nodes, operations)
	once := allocated(t, func() error {
		return s.Store.View(func(tx *store.Tx) error { return tx.Nodes().Each(func(store.Node) {}) })
	})
	scrape := allocated(t, func() error { _, err := s.stateMetrics(); return err })
	if scrape > once+once/5 {
		t.Errorf("a scrape of %d nodes allocates %d bytes; to decode each once takes %d", nodes, scrape, once)
	}

	t.Logf("%d nodes: %d bytes, %d to decode each once", nodes, scrape, once)
	got, err := s.stateMetrics()
	if err != nil {
		t.Fatal(err)
	}
	if want := map[wire.NodeState]int{wire.NodeEnrolled: nodes / 2, wire.NodeExpected: nodes / 2}; !reflect.DeepEqual(got.Nodes, want) {
		t.Errorf("nodes: %v", got.Nodes)
	}
	unmet := map[wire.Reason]int{wire.ReasonUnauthorized: nodes / 2}
	if !reflect.DeepEqual(got.Unmet, unmet) {
		t.Errorf("unmet: %v, want %v", got.Unmet, unmet)
	}
	worker := func(condition string, status wire.ConditionStatus) telemetry.Condition {
		return telemetry.Condition{Role: wire.RoleWorker, Type: condition, Status: status}
	}
	conditions := map[telemetry.Condition]int{
		worker(wire.ConditionReady, wire.ConditionUnknown):             nodes / 2,
		worker(wire.ConditionReady, wire.ConditionFalse):               nodes / 2,
		worker(wire.ConditionNFSClientInstalled, wire.ConditionTrue):   nodes / 2,
		worker(wire.ConditionRegistriesConnected, wire.ConditionFalse): nodes / 2,
	}
	if !reflect.DeepEqual(got.Conditions, conditions) {
		t.Errorf("conditions: %v, want %v", got.Conditions, conditions)
	}
	if used, free := got.StoreUsed, got.StoreFree; used < 400*500 || free < 0 {
		t.Errorf("the store has %d bytes in use and %d free", used, free)
	}
	if want := []wire.AgentCount{{Version: "v0.9.0", State: wire.AgentLost, Nodes: nodes / 2}}; !reflect.DeepEqual(got.Agents.Nodes, want) {
		t.Errorf("agents: %v", got.Agents.Nodes)
	}
	if want := map[wire.OperationState]int{wire.Completed: operations - 1, wire.Failed: 1}; !reflect.DeepEqual(got.Operations, want) {
		t.Errorf("operations: %v", got.Operations)
	}
	if want := map[wire.InstanceState]int{wire.Instantiated: 1}; !reflect.DeepEqual(got.Instances, want) {
		t.Errorf("instances: %v", got.Instances)
	}
}

// allocated is how many bytes fn allocates, once it has filled what it keeps.
func allocated(t testing.TB, fn func() error) uint64 {
	t.Helper()
	var before, after runtime.MemStats
	for range 2 {
		runtime.ReadMemStats(&before)
		if err := fn(); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
	}
	return after.TotalAlloc - before.TotalAlloc
}

// openScraped is a controller that serves nobody, with one instance: every second node has
// enrolled and reported, and each operation was about all of them.
func openScraped(t testing.TB, nodes, operations int) *services {
	t.Helper()
	c := config.Default()
	c.DataDirectory, c.Names, c.Attestation.Mode = t.TempDir(), []string{"127.0.0.1"}, config.AttestToken
	c.SealKeyFile = filepath.Join(c.DataDirectory, "seal.key")
	s, err := open(c, nil, telemetry.New("test"), time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Store.Close() })
	err = s.Store.Update(func(tx *store.Tx) error {
		i := store.Instance{ID: scraped, State: wire.Instantiated, Epoch: s.Store.Epoch()}
		var targets []wire.OperationTarget
		for n := range nodes {
			record := scrapedNode(n, s.Store.Epoch())
			i.NodeIDs = append(i.NodeIDs, record.ID)
			targets = append(targets, wire.OperationTarget{NodeID: record.ID, Name: record.Name, Ready: true})
			if err := tx.Nodes().Put(record.ID, record); err != nil {
				return err
			}
		}
		for n := range operations {
			o := store.Operation{Operation: wire.Operation{Sequence: int64(n + 1), State: wire.Completed, Targets: targets}}
			if n == 0 {
				o.State = wire.Failed
			}
			if err := tx.Operations().Put(store.OperationKey(scraped, o.Sequence), o); err != nil {
				return err
			}
		}
		return tx.Instances().Put(scraped, i)
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func scrapedNode(n int, epoch int64) store.Node {
	record := store.Node{ID: fmt.Sprintf("f1ee7000-0000-4000-8001-%012d", n), InstanceID: scraped, Name: fmt.Sprint("worker", n), Role: wire.RoleWorker,
		Addresses: []string{"10.0.0.1"}, Epoch: epoch, Expected: true, Generation: 1, Config: make(store.Sealed, 500)}
	if n%2 == 0 {
		return record
	}
	enrolled := time.Now().UTC()
	record.Identity = &store.Identity{Serial: "1", NotAfter: enrolled.Add(24 * time.Hour), EnrolledAt: enrolled}
	record.Conditions = []string{wire.ConditionNFSClientInstalled, wire.ConditionRegistriesConnected}
	record.Status, record.StatusOf = &wire.NodeStatus{Epoch: epoch, ObservedGeneration: 1, Facts: wire.Facts{AgentVersion: "v0.9.0", Hostname: record.Name},
		Conditions: []wire.Condition{{Type: wire.ConditionReady, Status: wire.ConditionFalse, Reason: wire.ReasonNotReady},
			{Type: wire.ConditionNFSClientInstalled, Status: wire.ConditionTrue, Reason: wire.ReasonInstalled},
			{Type: wire.ConditionRegistriesConnected, Status: wire.ConditionFalse, Reason: wire.ReasonUnauthorized}}}, enrolled
	return record
}

// What a scrape of many nodes costs, as it is answered.
func BenchmarkScrape(b *testing.B) {
	for _, nodes := range []int{2000, 10000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			s := openScraped(b, nodes, 20)
			b.ReportAllocs()
			before, scrapes := cpuTime(b), 0
			for b.Loop() {
				answer := httptest.NewRecorder()
				s.metrics.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/metrics", nil))
				scrapes++
				b.ReportMetric(float64(answer.Body.Len()), "bytes")
				b.ReportMetric(float64(strings.Count(answer.Body.String(), "\n")), "lines")
			}
			b.ReportMetric(float64((cpuTime(b)-before).Milliseconds())/float64(scrapes), "cpu-ms/scrape")
		})
	}
}
