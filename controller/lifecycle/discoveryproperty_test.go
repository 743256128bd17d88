package lifecycle_test

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

// noRole is the name of a server of a stack that is nothing to the parameters.
const noRole = "other"

// heat is the cloud of a history: one stack, as it is now.
type heat struct {
	now *api.Topology
	// away is why nothing is answered, nil if all is well.
	away error
	// meanwhile is done while it is asked, once.
	meanwhile func()
	asked     int
}

// Resolve takes what a request gives for the truth, so that histories without a stack
// are what they would be without a cloud.
func (c *heat) Resolve(ctx context.Context, r stack.Request) (*api.Topology, error) {
	if r.Inline != nil || r.StackID == "" {
		return stack.Inline{}.Resolve(ctx, r)
	}
	c.asked++
	found := topology.Normalize(c.now)
	if do := c.meanwhile; do != nil {
		c.meanwhile = nil
		do()
	}
	switch {
	case c.away != nil:
		return nil, c.away
	case found == nil:
		return nil, api.NewProblem(api.ProblemStackGone, "there is no stack")
	}
	found.StackID = lifecycletest.StackOne
	return found, nil
}

// Remains is what the stack has.
func (c *heat) Remains(_ context.Context, _ stack.Request, serverIDs, volumeIDs []string) (stack.Remains, error) {
	left := stack.Remains{Servers: map[string]string{}, Volumes: map[string][]string{}}
	if c.away != nil {
		return left, c.away
	}
	for _, id := range volumeIDs {
		left.Volumes[id] = nil
	}
	for _, s := range topology.Normalize(c.now).Servers {
		if slices.Contains(serverIDs, s.ID) {
			left.Servers[s.ID] = "ACTIVE"
		}
		for _, id := range s.VolumeIds {
			left.Volumes[id] = append(left.Volumes[id], s.ID)
		}
	}
	return left, nil
}

// heatChanges: servers come and go, also two storage servers at a time and a worker that
// has the volume, and Heat changes the stack, or cannot be reached.
func (h *history) heatChanges(t *rapid.T) {
	h.heat.away = nil
	switch rapid.IntRange(0, 9).Draw(t, "heat") {
	case 0:
		h.heat.now = nil
		return
	case 1:
		h.heat.away = lifecycletest.Unreachable()
		return
	}
	s := lifecycletest.TopologyOf()
	for _, server := range pool {
		if rapid.IntRange(0, 2).Draw(t, server.ID) == 0 {
			continue
		}
		server.VolumeIds = nil
		if chance := map[bool]int{true: 1, false: 5}[server.Name == "storage"]; rapid.IntRange(0, chance).Draw(t, "attached") == 0 {
			server.VolumeIds = []string{lifecycletest.Volume}
		}
		s.Servers = append(s.Servers, server)
	}
	if rapid.Bool().Draw(t, "one without a role") {
		s.Servers = append(s.Servers, api.Server{ID: lifecycletest.UUID(5, 1), Name: noRole})
	}
	s.ConnectionPoints = []api.ConnectionPoint{{Name: "vip_CP", Addresses: []string{rapid.SampledFrom([]string{"10.10.0.9", "10.10.0.10"}).Draw(t, "vip")}}}
	s.StackStatus = rapid.SampledFrom([]string{"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "UPDATE_FAILED", "DELETE_IN_PROGRESS"}).Draw(t, "status")
	h.heat.now = s
}

// putStack is a PUT that names the stack and leaves its servers to Heat.
func (h *history) putStack(t *rapid.T) {
	s := lifecycletest.StackSpec(lifecycletest.StackOne)
	s.AdditionalParams = lifecycletest.VolumesParameters(rapid.SampledFrom([]string{"10.10.0.0/24", "10.20.0.0/24"}).Draw(t, "exports"))
	err := h.tryPut(s)
	if err == nil {
		h.observed = time.Time{}
	}
	h.unless(err)
}

// overtaken is a request whose stack is observed while another one comes.
func (h *history) overtaken(t *rapid.T) {
	h.heat.meanwhile = func() {
		rapid.SampledFrom([]func(*rapid.T){h.putAny, h.putStack, h.postAny, h.heatChanges}).Draw(t, "meanwhile")(t)
		h.after(t) // before what was overtaken changes it again
	}
	rapid.SampledFrom([]func(*rapid.T){h.putStack, h.postEnd, h.enrollAny}).Draw(t, "overtaken")(t)
	h.heat.meanwhile, h.observed = nil, time.Time{}
}

// discoverLate is a server that calls when it is to go, or all of it is.
func (h *history) discoverLate(t *rapid.T) {
	worker := pool[4]
	r := lifecycletest.Scale(api.ScaleIn, api.PhaseStart, lifecycletest.TopologyOf(pool[0], pool[2]))
	r.VnfcInstanceIds = []string{rapid.SampledFrom([]string{worker.ID, worker.VnfcInstanceID}).Draw(t, "named by")}
	if rapid.Bool().Draw(t, "terminated") {
		r = lifecycletest.Request(api.Terminate, api.PhaseStart)
		h.unless(h.tryPut(lifecycletest.Spec(lifecycletest.TopologyOf(pool[0], pool[2]))))
	}
	h.posted(t, r)
	h.heat.now, h.heat.away = lifecycletest.TopologyOf(pool[0], pool[2], worker), nil
	h.Clock.Advance(time.Minute)
	h.discover(t, worker.ID)
}

// discoverMeanwhile are servers that call while the storage server is about to go.
func (h *history) discoverMeanwhile(t *rapid.T) {
	h.healStorage(t)
	h.heat.now, h.heat.away = lifecycletest.TopologyOf(h.Instance().Topology.Servers...), nil
	for _, s := range pool {
		if !slices.ContainsFunc(h.heat.now.Servers, func(o api.Server) bool { return o.ID == s.ID }) {
			h.heat.now.Servers = append(h.heat.now.Servers, s)
		}
	}
	h.Clock.Advance(11 * time.Second)
	h.discover(t, h.heat.now.Servers[len(h.heat.now.Servers)-1].ID)
}

// discoverAny is a server that calls and that no topology may name.
func (h *history) discoverAny(t *rapid.T) {
	h.Clock.Advance(time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds")) * time.Second)
	h.discover(t, rapid.SampledFrom(pool).Draw(t, "server").ID)
}

func (h *history) discover(t *rapid.T, id string) {
	h.Must(h.Lifecycle.Sweep(h.Ctx))
	if h.members { // a master that is added changes the documents of the others
		h.after(t)
	}
	before, documents, version := h.Instance(), h.documents(), h.desiredNow()
	asked := h.heat.asked
	err := h.Lifecycle.Discovery.Discover(h.Ctx, lifecycletest.InstanceID, id)
	h.unless(err)
	if n := h.heat.asked - asked; n > 1 || n == 1 && h.Clock.Now().Sub(h.observed) < 10*time.Second {
		t.Fatalf("%d observations, and one was %v ago", n, h.Clock.Now().Sub(h.observed))
	} else if n == 1 {
		h.observed = h.Clock.Now()
	}
	after := h.Instance()
	added := h.checkKept(t, before.Topology, after.Topology)
	if len(added) == 0 {
		if cmp.Diff(version, h.desiredNow()) != "" {
			t.Fatalf("no server was added, and version %d became %d", version.Version, h.desiredNow().Version)
		}
		return
	}
	for _, s := range added {
		h.checkAdded(t, s)
	}
	if now := h.desiredNow(); now.WithdrawPersistentVolumes != version.WithdrawPersistentVolumes || !slices.Equal(now.AdditionalParams, version.AdditionalParams) || now.StackID != version.StackID {
		t.Fatalf("%+v became %+v", version, now)
	}
	if lifecycletest.HasFault(after.Warnings, "", "nothing is planned") {
		t.Fatalf("the topology in force cannot be planned: %+v", after.Warnings)
	}
	for id, config := range h.documents() {
		was, ok := documents[id]
		if ok && was.PersistentVolumes == nil {
			config.PersistentVolumes = nil
		}
		if ok && was.Storage == nil { // what was withheld may come
			config.Storage = nil
		}
		config.Cluster, config.ClusterMembers = was.Cluster, was.ClusterMembers // lists may become longer
		if ok && was.Digest() != config.Digest() {
			t.Fatalf("the document of %s was %+v and is %+v", id, was, config)
		}
	}
}

// documents are those of the nodes in force.
func (h *history) documents() map[string]api.NodeConfig {
	all := map[string]api.NodeConfig{}
	for _, id := range h.Instance().Nodes {
		config, _, err := h.Lifecycle.Nodes.NodeConfig(h.Ctx, id)
		h.Must(err)
		all[id] = config
	}
	return all
}

func (h *history) desiredNow() (d store.Desired) {
	h.Must(h.Store.View(func(tx *store.Tx) error {
		inst, _, err := tx.Instances().Get(lifecycletest.InstanceID)
		h.Must(err)
		d, _, err = tx.Desired().Get(store.DesiredKey(lifecycletest.InstanceID, inst.DesiredVersion))
		return err
	}))
	return d
}

// checkKept wants everything before to be unchanged, and returns the new servers.
func (h *history) checkKept(t *rapid.T, before, after *api.Topology) []api.Server {
	if before == nil {
		if after == nil {
			return nil
		}
		return after.Servers
	}
	if after == nil || len(after.Servers) < len(before.Servers) || len(after.Volumes) < len(before.Volumes) || len(after.ConnectionPoints) < len(before.ConnectionPoints) {
		t.Fatalf("a server that called took something from %+v: %+v", before, after)
	}
	kept := *after
	kept.Servers = after.Servers[:len(before.Servers)]
	kept.Volumes = after.Volumes[:len(before.Volumes)]
	kept.ConnectionPoints = after.ConnectionPoints[:len(before.ConnectionPoints)]
	kept.StackStatus, kept.StackStatusReason = before.StackStatus, before.StackStatusReason
	if diff := cmp.Diff(before, &kept, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("what was there is another (-before +after):\n%s", diff)
	}
	return after.Servers[len(before.Servers):]
}

// checkAdded wants a server that the stack has, with a role, and that is not to go.
func (h *history) checkAdded(t *rapid.T, s api.Server) {
	i := h.Instance()
	asked, report := params.Parse(i.AdditionalParams, fault.Root)
	if asked == nil { // its secrets are redacted
		asked = report.Partial
	}
	switch {
	case h.heat.now == nil || h.heat.away != nil || strings.HasPrefix(h.heat.now.StackStatus, "DELETE_"):
		t.Fatalf("%s was added of the stack %+v", s.ID, h.heat.now)
	case !slices.ContainsFunc(h.heat.now.Servers, func(o api.Server) bool { return o.ID == s.ID }):
		t.Fatalf("%s was added, and the stack has %+v", s.ID, h.heat.now.Servers)
	case len(topology.Assign(asked, &api.Topology{Servers: []api.Server{s}}, fault.Root).Roles) != 1:
		t.Fatalf("%s was added without a role", s.ID)
	case i.Unconfirmed:
		t.Fatalf("%s was added to an instance that is not confirmed", s.ID)
	}
	for _, op := range h.Operations() {
		switch {
		case op.Operation == api.Terminate && op.Phase == api.PhaseStart && op.State == api.Completed && h.Clock.Now().Before(op.Deadline) && op.ID == h.Operations()[0].ID:
			t.Fatalf("%s was added while operation %s is in force", s.ID, op.ID)
		case op.Phase == api.PhaseEnd && (op.Error == nil || op.Error.Type != api.ProblemStackFailed):
			return
		case op.Phase == api.PhaseStart && op.State != api.Failed && (slices.Contains(h.named[op.ID], s.VnfcInstanceID) || slices.Contains(h.named[op.ID], s.ID)):
			t.Fatalf("%s was added, and operation %s has named it as leaving", s.ID, op.ID)
		}
	}
}
