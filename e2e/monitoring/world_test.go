package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

const suite = "monitoring"

// site is a controller that the Prometheus scrapes, with one instance: a storage server and some
// workers.
type site struct {
	*loopback.Controller
	t          *testing.T
	prometheus *prometheus
	// target is the address of the metrics: the label instance.
	target   string
	instance string
	storage  *loopback.Machine
	volume   string
	workers  []*loopback.Machine
	// every is how often machines call.
	every time.Duration

	mu    sync.Mutex
	calls map[*loopback.Machine]context.CancelFunc
}

func open(t *testing.T, p *prometheus, workers int, o loopback.Options) *site {
	t.Helper()
	s := &site{t: t, prometheus: p, target: loopback.FreeAddress(t), instance: uuid.NewString(), every: time.Second, calls: map[*loopback.Machine]context.CancelFunc{}}
	settings := map[string]string{"metricsListen": s.target}
	maps.Copy(settings, o.Settings)
	o.Settings = settings
	s.Controller = loopback.Open(t, o)
	s.join(workers)
	p.scrape(s.target)
	// A counter that has counted before the first scrape has not risen.
	until(t, func() string { return "Prometheus scrapes " + s.target }, func() bool {
		return len(p.query(fmt.Sprintf(`up{instance=%q} == 1`, s.target))) > 0
	})
	return s
}

// join gives the instance its servers, which are Ready and go on to call.
func (s *site) join(workers int) {
	s.t.Helper()
	s.storage = s.Machine(uuid.NewString())
	s.volume = uuid.NewString()
	ids := make([]string, workers)
	for i := range ids {
		ids[i] = uuid.NewString()
		s.workers = append(s.workers, s.Machine(ids[i]))
	}
	s.Put(s.instance, s.topology(ids...))
	token := s.JoinToken(s.instance)
	for _, m := range append([]*loopback.Machine{s.storage}, s.workers...) {
		s.must(m.Enroll(s.t.Context(), token))
		s.must1(m.Converge(s.t.Context()))
		s.live(m)
	}
}

// topology is the stack with these workers, as Heat would have it.
func (s *site) topology(workers ...string) *api.Topology {
	t := loopback.StorageTopology(s.storage.ServerID, s.volume, 1<<30, workers...)
	for i := range t.Servers[1:] {
		t.Servers[1+i].VduID = "workerNode"
	}
	return t
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) must1(_ any, err error) {
	s.t.Helper()
	s.must(err)
}

// live polls for a machine, as an agent does, until the test ends or silence stops it.
func (s *site) live(m *loopback.Machine) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	s.mu.Lock()
	s.calls[m] = func() { stop(); <-ended }
	s.mu.Unlock()
	go func() {
		defer close(ended)
		tick := time.NewTicker(s.every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			_, _ = m.Config(ctx) // the controller may be away
		}
	}()
	s.t.Cleanup(func() { s.silence(m) })
}

// silence ends the calls of a machine.
func (s *site) silence(m *loopback.Machine) {
	s.mu.Lock()
	stop := s.calls[m]
	delete(s.calls, m)
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// says has a machine report its present document with one condition False.
func (s *site) says(m *loopback.Machine, condition, reason string) {
	s.t.Helper()
	config, err := m.Config(s.t.Context())
	s.must(err)
	status := loopback.Converged(*config)
	found := false
	for i := range status.Conditions {
		c := &status.Conditions[i]
		switch c.Type {
		case condition:
			c.Status, c.Reason, found = api.ConditionFalse, reason, true
		case api.ConditionReady:
			c.Status, c.Reason = api.ConditionFalse, api.ReasonNotReady
		}
	}
	if !found {
		s.t.Fatalf("the document of %s does not call for %s", m.ServerID, condition)
	}
	s.must(m.Report(s.t.Context(), status))
}

// fires waits until an alert fires for this controller.
func (s *site) fires(name string) alert {
	s.t.Helper()
	var found []alert
	until(s.t, func() string { return name + " fires; firing: " + s.prometheus.names(s.target) }, func() bool {
		found = s.prometheus.firing(name, s.target)
		return len(found) > 0
	})
	return found[0]
}

// ends waits until it does not fire any more.
func (s *site) ends(name string) {
	s.t.Helper()
	until(s.t, func() string { return name + " ends" }, func() bool { return len(s.prometheus.firing(name, s.target)) == 0 })
}

// until is loopback.Until with words that are found when the time is over.
func until(t *testing.T, what func() string, ok func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("timed out; expected: %s", what())
		case <-tick.C:
		}
	}
}

// put asks the controller to write so many bytes, and returns what it says.
func (s *site) put(bytes int) error {
	id := uuid.NewString()
	all := loopback.ClusterParams("")
	all["note"] = strings.Repeat("x", bytes)
	params, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return client.Done(s.API.PutInstance(s.t.Context(), id, nil, api.InstanceSpec{AdditionalParams: params}))
}
