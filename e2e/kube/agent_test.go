package kube_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/host"
	"github.com/nodehitch/nodehitch/agent/persistentvolume"
	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The step that registers volumes, at a real API server: what a dry run says, which
// conflicts there are and when a volume is gone is the server's to decide.
func TestTheAgentRegistersAndWithdrawsVolumes(t *testing.T) {
	results.Begin(t, suite, "agent",
		"the agent registers volumes, changes nothing when asked again, deletes none while one is bound, and all when none is")
	kubetest.Require(t)
	m := newMaster(t)
	m.converge(api.ReasonRegistered)
	m.waitPhase("pv/pv1", "Available")
	before := m.kubectl("get", "pv", "-o", "jsonpath={.items[*].metadata.resourceVersion}")
	if r := m.pass(); r.Changed {
		t.Errorf("a second pass did something: %+v", r.Results)
	}
	if after := m.kubectl("get", "pv", "-o", "jsonpath={.items[*].metadata.resourceVersion}"); after != before {
		t.Errorf("a second pass wrote: %s, then %s", before, after)
	}

	m.apply(claim)
	m.kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/claim1", "--timeout=120s")
	m.doc.PersistentVolumes.State = api.PersistentVolumesAbsent
	message := m.converge(api.ReasonInUse)
	if !strings.Contains(message, "default/claim1") {
		t.Errorf("it does not name the claim: %s", message)
	}
	if names := m.kubectl("get", "pv", "-o", "name"); names != "persistentvolume/pv1\npersistentvolume/pv2" {
		t.Errorf("while one is bound there are %q", names)
	}

	m.kubectl("delete", "pvc", "claim1", "--timeout=60s")
	m.converge(api.ReasonAbsent)
	if names := m.kubectl("get", "pv", "-o", "name"); names != "" {
		t.Errorf("withdrawn, and there are %q", names)
	}
}

// master is the machine of this test as a master of a cluster.
type master struct {
	cluster
	engine *converge.Engine
	doc    *api.NodeConfig
}

func newMaster(t *testing.T) *master {
	c := cluster{kubetest.Open(t, kube.Options{}), t}
	admin, err := c.Kubeconfig(kube.Admin, kube.Masters)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "admin.conf")
	if err := os.WriteFile(path, admin, 0o600); err != nil {
		t.Fatal(err)
	}
	m := &master{cluster: c, doc: &api.NodeConfig{APIVersion: api.NodeConfigV1, Generation: 1, Role: api.RoleMaster}}
	m.engine = converge.New(persistentvolume.New(persistentvolume.Options{
		Host: host.Linux(slog.New(slog.DiscardHandler)), Kubeconfig: path,
	}))
	section := &api.PersistentVolumesSection{State: api.PersistentVolumesPresent, Servers: []string{"10.10.0.5"}}
	for _, name := range []string{"pv1", "pv2"} {
		section.Manifests = append(section.Manifests, json.RawMessage(fmt.Sprintf(`{"apiVersion": "v1", "kind": "PersistentVolume",
			"metadata": {"name": %q}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"],
			"persistentVolumeReclaimPolicy": "Retain", "nfs": {"server": "10.10.0.5", "path": "/volume/nfs/%[1]s"}}}`, name)))
	}
	m.doc.PersistentVolumes = section
	return m
}

func (m *master) pass() converge.Report {
	return m.engine.Converge(m.t.Context(), m.doc, converge.Options{Confirmed: true})
}

// converge passes again and again until the condition has the reason, and returns its message.
func (m *master) converge(want api.Reason) string {
	m.t.Helper()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(90 * time.Second); ; <-tick.C {
		r := m.pass()
		c := r.Condition(api.ConditionPersistentVolumesRegistered)
		if c.Reason == want {
			return c.Message
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("%s is %s %s: %s; want %s", c.Type, c.Status, c.Reason, c.Message, want)
		}
	}
}
