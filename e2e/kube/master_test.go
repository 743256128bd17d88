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
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/role/persistentvolume"
	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const storageServer = "10.10.0.5"

// master is the machine of this test as a master of a cluster.
type master struct {
	cluster
	kubeconfig string
	engine     *converge.Engine
	doc        *api.NodeConfig
	// during is told of each action that begins, by its summary; may be nil.
	during func(action string)
}

// newMaster is one with the manifests of pv1 and pv2.
func newMaster(t *testing.T) *master {
	m := &master{cluster: cluster{kubetest.Open(t, kube.Options{}), t}, kubeconfig: filepath.Join(t.TempDir(), "admin.conf")}
	m.login(kube.Admin, kube.Masters)
	m.engine = converge.New(persistentvolume.New(persistentvolume.Options{
		Host: host.Linux(slog.New(slog.DiscardHandler)), Kubeconfig: m.kubeconfig,
	}))
	m.doc = &api.NodeConfig{APIVersion: api.NodeConfigV1, Generation: 1, Role: api.RoleMaster, PersistentVolumes: &api.PersistentVolumesSection{
		State: api.PersistentVolumesPresent, Servers: []string{storageServer},
	}}
	m.manifests(manifest("pv1", storageServer), manifest("pv2", storageServer))
	return m
}

// login writes the kubeconfig of a user.
func (m *master) login(user string, groups ...string) {
	m.t.Helper()
	content, err := m.Kubeconfig(user, groups...)
	if err != nil {
		m.t.Fatal(err)
	}
	m.write(string(content))
}

func (m *master) write(kubeconfig string) {
	m.t.Helper()
	if err := os.WriteFile(m.kubeconfig, []byte(kubeconfig), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

func manifest(name, server string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "PersistentVolume",
		"metadata": {"name": %q}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"],
		"persistentVolumeReclaimPolicy": "Retain", "nfs": {"server": %q, "path": "/volume/nfs/%[1]s"}}}`, name, server)
}

// manifests sets the document's manifests.
func (m *master) manifests(all ...string) {
	m.doc.PersistentVolumes.Manifests = []api.Manifest{}
	for _, each := range all {
		m.doc.PersistentVolumes.Manifests = append(m.doc.PersistentVolumes.Manifests, json.RawMessage(each))
	}
}

// names are the volumes of the cluster.
func (m *master) names() string {
	m.t.Helper()
	return strings.ReplaceAll(strings.ReplaceAll(m.kubectl("get", "pv", "-o", "name"), "persistentvolume/", ""), "\n", " ")
}

func (m *master) pass() converge.Report {
	return m.engine.Converge(m.t.Context(), m.doc, converge.Options{Confirmed: true, Observe: func(e converge.Event) {
		if m.during != nil && !e.Finished {
			m.during(e.Summary)
		}
	}})
}

// converge repeats passes until the condition has the reason, and returns its message.
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

// says fails the test if a message does not have all parts.
func (m *master) says(message string, parts ...string) {
	m.t.Helper()
	for _, part := range parts {
		if !strings.Contains(message, part) {
			m.t.Errorf("the message %q does not say %q", message, part)
		}
	}
}
