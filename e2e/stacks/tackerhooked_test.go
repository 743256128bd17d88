package stacks

import (
	"maps"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// hooked is a VNF that one of Tacker's APIs takes through its life, by hooks of ours around what Heat does.
type hooked interface {
	asOnboarded() *tackerVNF
	instantiate()
	// heal is of these servers, or of the entire VNF. between is called after the first hook.
	heal(between func(), servers ...stackServer)
	terminate(*results.Case)
}

func (v *tackerVNF) asOnboarded() *tackerVNF { return v }

// begun instantiates a VNF, until each of these nodes is Ready.
func begun(h hooked, count map[api.Role]int, r *results.Case) {
	v := h.asOnboarded()
	v.T.Helper()
	began := time.Now()
	h.instantiate()
	r.Figure("from instantiate_start to the end of instantiate_end", "%.1f s", time.Since(began).Seconds())
	if i := v.instance(); i.State != api.Instantiated || i.StackID != v.stack {
		v.T.Errorf("after instantiate_end the instance is %s with the stack %s; Heat made %s", i.State, i.StackID, v.stack)
	}
	v.attested(count)
}

// byTacker instantiates the cluster.
func (c *cluster) byTacker(h hooked, count map[api.Role]int, r *results.Case) {
	c.T.Helper()
	c.newKubernetes()
	begun(h, count, r)
	c.available()
}

// life is a cluster that one of Tacker's APIs takes through its life. Its heals are in a row: what Tacker
// does to the parameters of the stack at one, the next one has.
type life struct {
	hooked
	cluster *cluster
	count   map[api.Role]int
}

// lifeOf is one of the storage server, this many masters, and two workers.
func lifeOf(h hooked, masters int) *life {
	count := maps.Clone(whole)
	count[api.RoleMaster] = masters
	return &life{hooked: h, cluster: &cluster{vnf: h.asOnboarded().vnf}, count: count}
}

func (l *life) create(r *results.Case) {
	l.cluster.byTacker(l.hooked, l.count, r)
	l.cluster.allReady()
}

// sound asserts what holds after every operation: each machine is in its role, and in the cluster that
// the machines have made.
func (l *life) sound() {
	l.asOnboarded().T.Helper()
	l.asOnboarded().attested(l.count)
	l.cluster.allReady()
}

// scaled says that there are this many workers from now on.
func (l *life) scaled(workers int) {
	l.asOnboarded().T.Helper()
	l.count[api.RoleWorker] = workers
	l.sound()
}

func (l *life) healWorker(*results.Case) { l.healMember("workerNode") }
func (l *life) healMaster(*results.Case) { l.healMember("masterNode") }

// healMember heals the newest server of a group.
func (l *life) healMember(vdu string) {
	v := l.asOnboarded()
	old := v.named(vdu)[0]
	l.heal(func() {}, old)
	successor := v.named(vdu)[0]
	if n := v.node(old.PhysicalID); n.State != api.NodeRevoked || successor.Parent != old.Parent {
		v.T.Errorf("the old server is %s; the newest server is in the member %s, the old one was in %s", n.State, successor.Parent, old.Parent)
	}
	all := v.operations()
	targets := all[len(all)-1].Targets
	others := slices.DeleteFunc(slices.Clone(targets), func(t api.OperationTarget) bool {
		// The owner master of a cluster is told of each member, and every member of each master.
		return t.NodeID == successor.PhysicalID || l.cluster.made && v.node(t.NodeID).Role != api.RoleStorage
	})
	if len(others) > 0 || !slices.ContainsFunc(targets, func(t api.OperationTarget) bool { return t.NodeID == successor.PhysicalID }) {
		v.T.Errorf("the END was about %+v, want the successor %s alone, or with members of its cluster", targets, successor.PhysicalID)
	}
	l.sound()
}

// healStorage is of a storage server whose volumes no claim uses.
func (l *life) healStorage(*results.Case) {
	v, c := l.asOnboarded(), l.cluster
	before := v.one(api.RoleStorage)
	v.run(before, "sh", "-c", "echo precious > /volume/nfs/pv1/file && sync")
	l.heal(l.withdrawn, v.named("storage_server")...)
	after := v.one(api.RoleStorage)
	if after.ID == before.ID || !slices.Equal(after.Addresses, before.Addresses) {
		v.T.Errorf("the storage server was %s at %v, is %s at %v", before.ID, before.Addresses, after.ID, after.Addresses)
	}
	if got := v.run(after, "cat", "/volume/nfs/pv1/file"); got != "precious\n" {
		v.T.Errorf("the file holds %q", got)
	}
	c.available()
	l.sound()
}

// withdrawn asserts that the cluster has no PersistentVolume.
func (l *life) withdrawn() {
	l.cluster.T.Helper()
	if out := l.cluster.kubectl("get", "pv", "-o", "name"); out != "" {
		l.cluster.T.Errorf("after the first hook there are %s", out)
	}
}

func (l *life) healEntire(*results.Case) {
	v := l.asOnboarded()
	before := v.stack
	l.heal(l.cluster.newKubernetes)
	if i := v.instance(); i.StackID != v.stack || v.stack == before {
		v.T.Errorf("the instance has the stack %s; Heat had %s and made %s", i.StackID, before, v.stack)
	}
	l.cluster.available()
	l.sound()
}
