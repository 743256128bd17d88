package kubernetes

import (
	"encoding/json"
	"fmt"
	"slices"
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
	r := results.Begin(t, suite, "three-masters", "three masters that share the endpoint's address and a worker become a cluster; when the master that has the address loses its power or its API server, or is healed, another one has it and the API answers there")
	w.draw(3, 1)
	shared := w.share()
	w.ask()
	began := time.Now()
	w.boot(w.Topology.Servers...)
	w.Operate(api.Instantiate)
	r.Figure("machines powered on to END", "%.1f s", time.Since(began).Seconds())
	w.sound()
	w.secondPasses()
	if names := w.voters(); len(names) != 3 {
		t.Errorf("etcd has the members %q that vote, want three", names)
	}

	holder := w.holder(shared)
	if err := holder.PowerCut(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Figure("power cut of the holder to an answer at the address", "%.1f s", w.answersAt(shared).Seconds())
	if err := holder.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.holder(shared, holder)
	w.Until("the master that is back reaches the API", func() error {
		_, err := holder.Try("kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf", "get", "nodes")
		return err
	})
	w.sound()

	holder = w.holder(shared)
	const manifest, away = "/etc/kubernetes/manifests/kube-apiserver.yaml", "/root/kube-apiserver.yaml"
	holder.Run("mv", manifest, away)
	began = time.Now()
	w.holder(shared, holder)
	r.Figure("end of the holder's API server to another holder", "%.1f s", time.Since(began).Seconds())
	w.answersAt(shared)
	holder.Run("mv", away, manifest)
	w.sound()

	holder = w.holder(shared) // is healed
	w.Operate(api.Heal, sitetest.PhaseStart, sitetest.VNFC(holder.Server))
	w.Destroy(holder)
	next := w.Redraw(holder.Server)
	began = time.Now()
	w.boot(next)
	w.Operate(api.Heal, sitetest.VNFC(next))
	r.Figure("a new master powered on to END", "%.1f s", time.Since(began).Seconds())
	w.sound()
	w.holder(shared)
	w.answersAt(shared)
	if names := w.voters(); len(names) != 3 || slices.Contains(names, holder.Name()) {
		t.Errorf("after the heal etcd has the members %q that vote, want three without %s", names, holder.Name())
	}
	for _, m := range w.Of(masterPoint) {
		config := m.Run("cat", "/etc/keepalived/keepalived.conf")
		for _, s := range w.Topology.Servers {
			if own := s.ConnectionPoints[0]; own.Name == masterPoint && !strings.Contains(config, " "+own.Addresses[0]+"\n") {
				t.Errorf("%s: keepalived does not know %s:\n%s", m.Name(), own.Addresses[0], config)
			}
		}
	}
}

// answersAt waits until the API answers a worker at an address, and returns how long that took.
func (w *cluster) answersAt(address string) time.Duration {
	w.T.Helper()
	began := time.Now()
	w.Until("the API answers at "+address, func() error {
		_, err := w.Of(workerPoint)[0].Try("curl", "--silent", "--show-error", "--fail", "--insecure", "--max-time", "2", "https://"+address+":6443/readyz")
		return err
	})
	return time.Since(began)
}

// share gives the masters an address of the stack itself as the endpoint.
func (w *cluster) share() (address string) {
	w.T.Helper()
	address = w.Address().String()
	w.Topology.ConnectionPoints = []api.ConnectionPoint{{Name: sharedPoint, Addresses: []string{address}}}
	w.request.params()["master_node"].(map[string]any)["cluster_cp_name"] = sharedPoint
	return address
}

// voters are the members of etcd that have started and vote.
func (w *cluster) voters() (names []string) {
	w.T.Helper()
	for _, m := range w.members(w.Of(masterPoint)[0]) {
		if m.Name != "" && !m.IsLearner {
			names = append(names, m.Name)
		}
	}
	return names
}

// etcdMember has no name until it has started.
type etcdMember struct {
	Name      string
	IsLearner bool
}

// members are those of etcd, as a master's knows them.
func (w *cluster) members(m *sitetest.Machine) []etcdMember {
	w.T.Helper()
	said := w.etcd(m, "/v3/cluster/member/list")
	var list struct{ Members []etcdMember }
	if err := json.Unmarshal([]byte(said), &list); err != nil {
		w.T.Fatalf("etcd says %q: %v", said, err)
	}
	return list.Members
}

// etcd is what a master's etcd answers to a request without arguments.
func (w *cluster) etcd(m *sitetest.Machine, path string) string {
	w.T.Helper()
	const pki = "/etc/kubernetes/pki/etcd/"
	return m.Run("curl", "--silent", "--show-error", "--fail", "--data", "{}",
		"--cacert", pki+"ca.crt", "--cert", pki+"healthcheck-client.crt", "--key", pki+"healthcheck-client.key", "https://127.0.0.1:2379"+path)
}

// holder waits until exactly one master has the address, which is none of those.
func (w *cluster) holder(address string, not ...*sitetest.Machine) (holder *sitetest.Machine) {
	w.T.Helper()
	w.Until("one master has "+address, func() error {
		var names []string
		for _, m := range w.Of(masterPoint) {
			out, err := m.Try("ip", "-oneline", "address")
			if err != nil {
				return err
			}
			if strings.Contains(out, " "+address+"/") {
				holder, names = m, append(names, m.Name())
			}
		}
		if len(names) != 1 || slices.Contains(not, holder) {
			return fmt.Errorf("it is on %q", names)
		}
		return nil
	})
	return holder
}
