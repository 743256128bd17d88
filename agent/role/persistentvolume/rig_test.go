package persistentvolume_test

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/agent/role/persistentvolume"
	"github.com/nodehitch/nodehitch/shared/api"
)

const server = "10.10.0.5"

// unconfirmed is how a pass is made under a stored document.
var unconfirmed = converge.Options{}

// rig is a master with its cluster and its document.
type rig struct {
	*testing.T
	api    *apiServer
	m      *hosttest.Machine
	engine *converge.Engine
	doc    *api.NodeConfig
	// resolver and resolveLimit are those of the step; the machine's if they are not set.
	resolver     *net.Resolver
	resolveLimit time.Duration
}

// master is one whose document has the PersistentVolumes of these names.
func master(t *testing.T, names ...string) *rig {
	r := &rig{T: t, api: newAPIServer(t), m: hosttest.New()}
	r.setKubeconfig(r.api.kubeconfig())
	r.restart(5 * time.Second)
	r.doc = &api.NodeConfig{APIVersion: api.NodeConfigV1, Generation: 1, Role: api.RoleMaster, PersistentVolumes: &api.PersistentVolumesSection{
		State: api.PersistentVolumesPresent, Servers: []string{server}, Manifests: []api.Manifest{},
	}}
	for _, name := range names {
		r.add(manifest(name, server))
	}
	return r
}

// restart makes a new agent without memory, with this limit for a request.
func (r *rig) restart(limit time.Duration) {
	r.engine = converge.New(persistentvolume.New(persistentvolume.Options{
		Host: r.m.Host(), RequestLimit: limit, GoneLimit: 300 * time.Millisecond,
		Resolver: r.resolver, ResolveLimit: r.resolveLimit,
	}))
}

func (r *rig) add(m string) {
	r.doc.PersistentVolumes.Manifests = append(r.doc.PersistentVolumes.Manifests, json.RawMessage(m))
}

func (r *rig) setKubeconfig(content string) {
	r.m.Files[kubeapi.AdminKubeconfig] = hosttest.FileState{Content: content, Mode: 0o600}
}

// manifests gives the document these manifests and no others.
func (r *rig) manifests(all ...string) {
	r.doc.PersistentVolumes.Manifests = []api.Manifest{}
	for _, m := range all {
		r.add(m)
	}
}

func (r *rig) absent() { r.doc.PersistentVolumes.State = api.PersistentVolumesAbsent }

func manifest(name, server string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": %q, "labels": {"tier": "data"}},
		"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "nfs": {"server": %q, "path": "/volume/nfs/%s"}}}`, name, server, name)
}

// foreign adds a volume that nodehitch did not make.
func (r *rig) foreign(name, server string) {
	var v object
	if err := json.Unmarshal([]byte(manifest(name, server)), &v); err != nil {
		r.Fatal(err)
	}
	r.api.mu.Lock()
	defer r.api.mu.Unlock()
	r.api.store(name, v)
}

func (r *rig) pass() converge.Report {
	r.Helper()
	return r.engine.Converge(r.Context(), r.doc, converge.Options{Confirmed: true})
}

// expect makes a pass; the condition must be as said ("True Registered"), its message
// have all parts, and a terminal reason be told as such.
func (r *rig) expect(want string, parts ...string) converge.Report {
	r.Helper()
	report := r.pass()
	c := report.Condition(api.ConditionPersistentVolumesRegistered)
	if c == nil {
		r.Fatalf("there is no condition, want %s", want)
	}
	if got := string(c.Status) + " " + c.Reason; got != want {
		r.Fatalf("the condition is %s (%s), want %s", got, c.Message, want)
	}
	for _, part := range parts {
		if !strings.Contains(c.Message, part) {
			r.Errorf("the message %q does not say %q", c.Message, part)
		}
	}
	return report
}

// did compares the requests that changed something since the last time.
func (r *rig) did(want ...string) {
	r.Helper()
	r.api.mu.Lock()
	defer r.api.mu.Unlock()
	if !slices.Equal(r.api.did, want) {
		r.Errorf("did %q, want %q", r.api.did, want)
	}
	r.api.did = nil
}

// asked compares all requests since the last time.
func (r *rig) asked(want ...string) {
	r.Helper()
	r.api.mu.Lock()
	defer r.api.mu.Unlock()
	if !slices.Equal(r.api.asked, want) {
		r.Errorf("asked %q, want %q", r.api.asked, want)
	}
	r.api.asked = nil
}

// is reports whether the volume is in the cluster.
func (r *rig) is(name string) object {
	r.api.mu.Lock()
	defer r.api.mu.Unlock()
	return r.api.volumes[name]
}
