package lifecycle_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// kubernetes is what a Kubernetes cluster has of PersistentVolumes, by name.
type kubernetes map[string]*persistentVolume

type persistentVolume struct {
	server      string
	ours, bound bool
}

// machine is an agent: the document that it has, and what it said of it, newest last.
type machine struct {
	doc    api.NodeConfig
	digest string
	said   []api.NodeStatus
}

// sorted is the names of the cluster's volumes, in order.
func (c kubernetes) sorted() []string { return slices.Sorted(maps.Keys(c)) }

// onServer is what of these servers, nodehitch's own or bound, is in the cluster.
func (c kubernetes) onServer(addresses []string, which func(*persistentVolume) bool) (names []string) {
	for _, name := range c.sorted() {
		if v := c[name]; slices.Contains(addresses, v.server) && which(v) {
			names = append(names, name)
		}
	}
	return names
}

// bound is what an agent reports of those that nodehitch made.
func (c kubernetes) bound() (list []api.BoundPersistentVolume) {
	for _, name := range c.sorted() {
		if v := c[name]; v.ours && v.bound {
			list = append(list, api.BoundPersistentVolume{Name: name, Server: v.server})
		}
	}
	return list
}

func isOurs(v *persistentVolume) bool { return v.ours }

func isBound(v *persistentVolume) bool { return v.bound }

// objects are the manifests of a section: the server of each by its name.
func objects(s *api.PersistentVolumesSection) map[string]string {
	all := map[string]string{}
	for _, m := range s.Manifests {
		var object struct {
			Metadata struct{ Name string }
			Spec     struct{ NFS struct{ Server string } }
		}
		if err := json.Unmarshal(m, &object); err != nil {
			panic(err)
		}
		all[object.Metadata.Name] = object.Spec.NFS.Server
	}
	return all
}

// register does what agent/persistentvolume does of a present section.
func (c kubernetes) register(s *api.PersistentVolumesSection) (status api.ConditionStatus, reason api.Reason) {
	status, reason = api.ConditionTrue, api.ReasonRegistered
	wanted := objects(s)
	for name, server := range wanted {
		switch v := c[name]; {
		case v == nil:
			c[name] = &persistentVolume{server: server, ours: true}
		case !v.ours:
			status, reason = api.ConditionFalse, api.ReasonForeignPersistentVolume
		case v.server == server:
		case v.bound:
			status, reason = api.ConditionFalse, api.ReasonSourceImmutable
		default:
			v.server = server
		}
	}
	for _, name := range c.onServer(s.Servers, isOurs) {
		switch _, keep := wanted[name]; {
		case keep:
		case c[name].bound:
			status, reason = api.ConditionFalse, api.ReasonInUse
		default:
			delete(c, name)
		}
	}
	return status, reason
}

// withdraw does what it does of an absent one: all or none. It returns what it deleted.
func (c kubernetes) withdraw(s *api.PersistentVolumesSection) (status api.ConditionStatus, reason api.Reason, deleted []string) {
	wanted := objects(s)
	ours := c.onServer(s.Servers, isOurs)
	for _, name := range c.sorted() {
		if _, named := wanted[name]; named && c[name].ours && !slices.Contains(ours, name) {
			ours = append(ours, name)
		}
	}
	used := c.onServer(s.Servers, isBound)
	for _, name := range ours {
		if c[name].bound {
			used = append(used, name)
		}
	}
	if len(used) > 0 {
		return api.ConditionFalse, api.ReasonInUse, nil
	}
	for _, name := range ours {
		delete(c, name)
	}
	return api.ConditionTrue, api.ReasonAbsent, ours
}

// poll lets the machine of a node, if it is accepted, take its document and make the
// cluster what that says. It reports nothing yet.
func (h *history) poll(t *rapid.T, id string) bool {
	n := h.Node(id)
	if n.Unconfirmed || n.State != api.NodeEnrolled && n.State != api.NodeLost {
		return false
	}
	h.Lifecycle.Nodes.Seen(id)
	config, digest, err := h.Lifecycle.Nodes.NodeConfig(h.Ctx, id)
	h.Must(err)
	m := h.machines[id]
	if m == nil {
		m = &machine{}
		h.machines[id] = m
	}
	m.doc, m.digest = config, digest
	status := h.Status(id)
	if s := config.PersistentVolumes; s != nil {
		c := status.Condition(api.ConditionPersistentVolumesRegistered)
		h.act(t, s, c)
		if s.State == api.PersistentVolumesPresent {
			status.BoundPersistentVolumes = h.cluster.bound()
		}
		if c.Status != api.ConditionTrue {
			status.Condition(api.ConditionReady).Status = api.ConditionFalse
			status.LastFailedGeneration, status.LastFailedCondition = config.Generation, c.Type
			status.AppliedDigest = "old"
		}
	}
	if s := config.ClusterDepartures; s != nil {
		h.runCluster(config, &status)
	}
	m.said = append(m.said, status)
	return true
}

func (h *history) act(t *rapid.T, s *api.PersistentVolumesSection, c *api.Condition) {
	if s.State == api.PersistentVolumesPresent {
		c.Status, c.Reason = h.cluster.register(s)
		return
	}
	used := h.cluster.onServer(h.storageAddresses(), isBound)
	var deleted []string
	if c.Status, c.Reason, deleted = h.cluster.withdraw(s); len(deleted) > 0 && len(used) > 0 {
		t.Fatalf("PersistentVolumes %v were deleted by %+v, while %v of the same server are bound", deleted, s, used)
	}
}

// storageAddresses are the addresses of the storage server in force, and of the one that
// the START in progress removes.
func (h *history) storageAddresses() (list []string) {
	for _, op := range h.Operations() {
		if s, ok := h.healed[op.Sequence]; ok && op.State == api.Processing {
			list = append(list, lifecycletest.AddressesOf(s)...)
		}
	}
	if top := h.Instance().Topology; top != nil {
		for _, s := range top.Servers {
			if s.Name == "storage" {
				list = append(list, lifecycletest.AddressesOf(s)...)
			}
		}
	}
	return list
}

// pollAny is a machine that polls and acts, and whose report is not there yet.
func (h *history) pollAny(t *rapid.T) {
	nodes := h.nodes()
	if len(nodes) == 0 || !h.poll(t, rapid.SampledFrom(nodes).Draw(t, "node").ID) {
		t.Skip("no node that may")
	}
}

// tellAny is a report that arrives, perhaps one that was under way for long.
func (h *history) tellAny(t *rapid.T) {
	nodes := slices.DeleteFunc(h.nodes(), func(n api.Node) bool {
		m := h.machines[n.ID]
		return m == nil || len(m.said) == 0 || n.Unconfirmed || n.State != api.NodeEnrolled && n.State != api.NodeLost
	})
	if len(nodes) == 0 {
		t.Skip("no node has reported")
	}
	id := rapid.SampledFrom(nodes).Draw(t, "node").ID
	said := h.machines[id].said
	late := rapid.IntRange(0, min(2, len(said)-1)).Draw(t, "late")
	h.tell(id, said[len(said)-1-late])
}

// claimAny is a claim that comes or goes, or a volume that another client made.
func (h *history) claimAny(t *rapid.T) {
	if names := h.cluster.sorted(); len(names) > 0 && rapid.IntRange(0, 3).Draw(t, "known") > 0 {
		v := h.cluster[rapid.SampledFrom(names).Draw(t, "volume")]
		v.bound = !v.bound && rapid.Bool().Draw(t, "bound")
		return
	}
	name := "foreign-" + rapid.SampledFrom([]string{"1", "2"}).Draw(t, "name")
	if h.cluster[name] != nil {
		delete(h.cluster, name)
		return
	}
	server := rapid.SampledFrom(pool[:2]).Draw(t, "server")
	h.cluster[name] = &persistentVolume{server: rapid.SampledFrom(lifecycletest.AddressesOf(server)).Draw(t, "address"), bound: rapid.Bool().Draw(t, "used")}
}

// tick is a while in which some are heard of and others fall silent.
func (h *history) tick(t *rapid.T) {
	nodes := h.nodes()
	for range rapid.IntRange(1, 4).Draw(t, "poll intervals") {
		h.Clock.Advance(30 * time.Second)
		for _, n := range nodes {
			if n.State != api.NodeExpected && n.State != api.NodeRevoked && rapid.Bool().Draw(t, "heard of") {
				h.Lifecycle.Nodes.Seen(n.ID)
			}
		}
		h.Must(h.Lifecycle.Sweep(h.Ctx))
	}
}

// held is what the machines that may speak have reported as bound, and the manifests in
// force, if a master has them: the server of each volume, by its name.
type held struct {
	bound []boundBy
	now   map[string]string
}

type boundBy struct {
	node string
	api.BoundPersistentVolume
}

func (h *history) held() held {
	held := held{now: h.registers()}
	for _, n := range h.nodes() {
		if n.Status == nil || n.Status.Epoch != h.Store.Epoch() || h.machines[n.ID] == nil || n.State != api.NodeEnrolled && n.State != api.NodeLost {
			continue
		}
		for _, b := range n.Status.BoundPersistentVolumes {
			held.bound = append(held.bound, boundBy{n.ID, b})
		}
	}
	return held
}

// registers is what the documents register.
func (h *history) registers() map[string]string {
	for _, n := range h.nodes() {
		config, _, err := h.Lifecycle.Nodes.NodeConfig(h.Ctx, n.ID)
		h.Must(err)
		if s := config.PersistentVolumes; s != nil && s.State == api.PersistentVolumesPresent {
			return objects(s)
		}
	}
	return nil
}

// checkHeld: a PUT that was taken points no volume elsewhere that a master which stays has
// reported as bound.
func (h *history) checkHeld(t *rapid.T, before held) {
	now, nodes := h.registers(), h.Instance().Nodes
	for _, b := range before.bound {
		if server, ok := now[b.Name]; ok && slices.Contains(nodes, b.node) && before.now[b.Name] == b.Server && server != b.Server {
			t.Fatalf("a PUT pointed PersistentVolume %s to %s; it is bound and was at %s", b.Name, server, b.Server)
		}
	}
}

// checkRefused: a PUT is refused for what is known to be bound, and by its name.
func (h *history) checkRefused(t *rapid.T, before held, p *api.Problem) {
	for _, f := range p.InvalidParams {
		if !slices.ContainsFunc(before.bound, func(b boundBy) bool {
			return strings.Contains(f.Message, "PersistentVolume "+b.Name+" to ") && strings.HasSuffix(f.Message, " "+b.Server)
		}) {
			t.Fatalf("a PUT was refused by %+v, and %v are bound", f, before.bound)
		}
	}
	if len(p.InvalidParams) == 0 {
		t.Fatalf("a PUT was refused by %v, which names nothing", p)
	}
}
