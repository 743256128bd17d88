package kubernetes

import (
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
		m.SecondPass()
	}
	etcd := w.kubectl("-n", "kube-system", "exec", "etcd-"+w.Of(masterPoint)[0].Name(), "--", "etcdctl",
		"--cacert", "/etc/kubernetes/pki/etcd/ca.crt", "--cert", "/etc/kubernetes/pki/etcd/healthcheck-client.crt", "--key", "/etc/kubernetes/pki/etcd/healthcheck-client.key",
		"--endpoints", "https://127.0.0.1:2379", "member", "list")
	if n := strings.Count(etcd, "started"); n != 3 || strings.Count(etcd, "false") != 3 {
		t.Errorf("etcd has %d members that have started, want 3 that vote:\n%s", n, etcd)
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
