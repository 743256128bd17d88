package kubernetes

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// sharedPoint is the stack's own connection point, whose address the masters share.
const sharedPoint = "vip_CP"

// TestThreeMasters has a cluster whose endpoint is an address of the stack itself.
func TestThreeMasters(t *testing.T) {
	results.LongOnly(t)
	w := newCluster(t)
	r := results.Begin(t, suite, "three masters", "three masters that share the endpoint's address and a worker become a cluster; when the master that holds the address loses its power, another one holds it and the API answers there")
	w.draw(3, 1)
	shared := w.Address().String()
	w.Topology.ConnectionPoints = []api.ConnectionPoint{{Name: sharedPoint, Addresses: []string{shared}}}
	w.Apply(w.sharing(), w.packageDir)
	began := time.Now()
	w.boot(w.Topology.Servers...)
	w.Operate(api.Instantiate)
	r.Figure("machines powered on to END", "%.1f s", time.Since(began).Seconds())
	w.sound()
	for _, m := range w.Of(masterPoint) {
		// The owner has the VIM's token in memory, and would ask for another one.
		if n, err := m.AsKnown(); err == nil && n.Status.Condition(api.ConditionClusterAccessReady) == nil {
			m.SecondPass()
		}
	}
	if names := w.voters(); len(names) != 3 {
		t.Errorf("etcd has the members %q that vote, want three", names)
	}

	holder := w.holder(shared)
	var others []*sitetest.Machine
	for _, m := range w.Of(masterPoint) {
		if m != holder {
			others = append(others, m)
		}
	}
	if err := holder.PowerCut(t.Context()); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	w.Until("the API answers at the shared address", func() error {
		out, err := w.Of(workerPoint)[0].Try("curl", "--silent", "--show-error", "--fail", "--insecure", "--max-time", "2", "https://"+shared+":6443/readyz")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	r.Figure("power cut of the holder to an answer at the address", "%.1f s", time.Since(began).Seconds())
	if !holds(others[0], shared) && !holds(others[1], shared) {
		t.Errorf("no master that is up has %s", shared)
	}
	if err := holder.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.sound()
	w.holder(shared)
}

// sharing is the request with the shared address as the endpoint.
func (w *cluster) sharing() string {
	w.T.Helper()
	text, err := os.ReadFile(body)
	if err != nil {
		w.T.Fatal(err)
	}
	const own = `"cluster_cp_name": "` + masterPoint + `"`
	if !strings.Contains(string(text), own) {
		w.T.Fatalf("%s does not say %s", body, own)
	}
	path := filepath.Join(w.T.TempDir(), "request.json")
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), own, `"cluster_cp_name": "`+sharedPoint+`"`, 1)), 0o600); err != nil {
		w.T.Fatal(err)
	}
	return path
}

// voters are the members of etcd that have started and vote.
func (w *cluster) voters() (names []string) {
	w.T.Helper()
	const pki = "/etc/kubernetes/pki/etcd/"
	said := w.Of(masterPoint)[0].Run("curl", "--silent", "--show-error", "--fail", "--data", "{}",
		"--cacert", pki+"ca.crt", "--cert", pki+"healthcheck-client.crt", "--key", pki+"healthcheck-client.key", "https://127.0.0.1:2379/v3/cluster/member/list")
	var list struct {
		Members []struct {
			Name      string
			IsLearner bool
		}
	}
	if err := json.Unmarshal([]byte(said), &list); err != nil {
		w.T.Fatalf("etcd says %q: %v", said, err)
	}
	for _, m := range list.Members {
		if m.Name != "" && !m.IsLearner {
			names = append(names, m.Name)
		}
	}
	return names
}

// holder waits until exactly one master has the address.
func (w *cluster) holder(address string) (holder *sitetest.Machine) {
	w.T.Helper()
	w.Until("one master holds "+address, func() error {
		n := 0
		for _, m := range w.Of(masterPoint) {
			if holds(m, address) {
				holder, n = m, n+1
			}
		}
		if n != 1 {
			return fmt.Errorf("%d masters have it", n)
		}
		return nil
	})
	return holder
}

// holds reports whether a machine has an address.
func holds(m *sitetest.Machine, address string) bool {
	m.W.T.Helper()
	return strings.Contains(m.Run("ip", "-oneline", "address"), " "+address+"/")
}
