package clustermembers_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/machine/etcd"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi/kubeapitest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// strayed is an owner of three masters. A fourth one was cut off while it joined: it has an etcd
// member, and no Node. Then its server was deleted.
func strayed(t *testing.T, started bool) *rig {
	r := making(t)
	r.doc.ClusterMembers.Members = slices.Delete(r.doc.ClusterMembers.Members, 2, 3)
	r.node(1, true)
	r.etcd.join(0, true)
	r.etcd.join(1, true)
	r.etcd.join(8, started)
	r.etcd.sick[8] = true
	r.had("10.10.0.0", "10.10.0.1", "10.10.0.8", "10.10.0.9")
	return r
}

// had are the addresses that masters of the instance have or had.
func (r *rig) had(addresses ...string) {
	content, err := json.Marshal(map[string]any{"kubernetes": map[string]any{"masters": addresses}})
	if err != nil {
		r.Fatal(err)
	}
	r.m.Files["/var/lib/nodehitch/agent/inventory.json"] = hosttest.FileState{Content: string(content), Mode: 0o600}
}

func TestAnEtcdMemberOfADeletedServerWithoutANodeIsRemoved(t *testing.T) {
	for name, started := range map[string]bool{"it has not started": false, "it has its vote": true} {
		t.Run(name, func(t *testing.T) {
			r := strayed(t, started)
			r.expect("False Converging", "10.10.0.8", "of no server and of no Node")
			r.now = r.now.Add(etcd.Patience - time.Second)
			r.expect("False Converging")
			r.did()
			r.now = r.now.Add(time.Second)
			r.expect("True MembersCurrent")
			r.did("remove etcd 8")
			r.expect("True MembersCurrent")
			r.did()
		})
	}
}

// Whatever may be a machine's stays, and all that are healthy.
func TestAnEtcdMemberThatMayBeAMachinesStays(t *testing.T) {
	list := func(r *rig, n int) {
		r.doc.ClusterMembers.Members = append(r.doc.ClusterMembers.Members, api.ClusterMember{
			ServerID: id(n), Name: "new", Role: api.RoleMaster, BootstrapToken: token(n), Addresses: []string{"10.10.0.8"},
		})
	}
	last := func(r *rig) *api.ClusterMember {
		return &r.doc.ClusterMembers.Members[len(r.doc.ClusterMembers.Members)-1]
	}
	for name, c := range map[string]struct {
		change func(*rig)
		want   string
	}{
		"a master that joins has its address": {func(r *rig) { list(r, 7) }, ""},
		"a master of the cluster has its address": {func(r *rig) {
			r.doc.Cluster.Masters = []api.ClusterServer{{ServerID: id(7), Name: "new", Addresses: []string{"10.10.0.8"}}}
		}, "True MembersCurrent"},
		"a master that leaves has its address": {func(r *rig) {
			r.doc.ClusterDepartures = &api.ClusterDeparturesSection{Members: []api.ClusterServer{{ServerID: id(8), Name: "server-8", Addresses: []string{"10.10.0.8"}}}}
		}, "True MembersCurrent"},
		"nobody knows the address of a master that joins": {func(r *rig) { list(r, 7); last(r).Addresses = nil }, ""},
		"a Node has its name":                             {func(r *rig) { r.api.Put(nodes+"server-8", kubeapitest.Node(id(9), false, "10.10.0.9")) }, "True MembersCurrent"},
		"a Node has its address":                          {func(r *rig) { r.api.Put(nodes+"other", kubeapitest.Node(id(9), false, "10.10.0.8")) }, "True MembersCurrent"},
		"it is healthy":                                   {func(r *rig) { r.etcd.sick[8] = false }, "True MembersCurrent"},
		"another program makes the cluster":               {func(r *rig) { r.doc.Kubernetes = nil }, "True MembersCurrent"},
		"the others have no quorum":                       {func(r *rig) { r.etcd.sick[1] = true }, "False Converging"},
	} {
		t.Run(name, func(t *testing.T) {
			r := strayed(t, true)
			c.change(r)
			for range 3 {
				report := r.pass(true).Condition(api.ConditionClusterMembersCurrent)
				if got := string(report.Status) + " " + report.Reason; c.want != "" && got != c.want {
					t.Errorf("it is %s: %s", got, report.Message)
				}
				r.now = r.now.Add(etcd.Patience)
			}
			if gone := r.etcd.removed(); gone != nil {
				t.Errorf("it did %q", gone)
			}
		})
	}
}

// An operator may have added a member whose clients cannot reach it from here.
func TestAnEtcdMemberOfAnOperatorsThatHasStartedIsNamedAndStays(t *testing.T) {
	r := strayed(t, true)
	r.had("10.10.0.0", "10.10.0.1")
	r.etcd.join(15, true)
	r.etcd.sick[15] = true
	for range 3 {
		r.expect("True MembersCurrent", "the etcd member server-8 at https://10.10.0.8:2380 is of no server", "RAFT NO LEADER", "`etcdctl member remove 8`", "`etcdctl member remove f`")
		r.did()
		r.now = r.now.Add(time.Hour)
	}
}

// kubeadm waits for minutes until a member that it has added starts.
func TestAnEtcdMemberOfAnOperatorsHasTimeToStart(t *testing.T) {
	r := strayed(t, false)
	r.had("10.10.0.0", "10.10.0.1")
	r.expect("False Converging", "10m0s", "it has not started")
	r.now = r.now.Add(10*time.Minute - time.Second)
	r.expect("False Converging")
	r.did()
	r.now = r.now.Add(time.Second)
	r.expect("True MembersCurrent")
	r.did("remove etcd 8")
}

// A plan that does not ask the members knows nothing of the time in between.
func TestAnEtcdMemberIsAskedInEachPlanBeforeItIsRemoved(t *testing.T) {
	for name, change := range map[string]func(*rig) (undo func()){
		"a master whose address is not known joins": func(r *rig) func() {
			section := *r.doc.ClusterMembers
			r.doc.ClusterMembers.Members = append(slices.Clone(section.Members), api.ClusterMember{ServerID: id(7), Name: "new", Role: api.RoleMaster, BootstrapToken: token(7)})
			return func() { *r.doc.ClusterMembers = section }
		},
		"another master speaks for the cluster": func(r *rig) func() {
			section := r.doc.ClusterMembers
			r.doc.ClusterMembers = nil
			return func() { r.doc.ClusterMembers = section }
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := strayed(t, true)
			r.expect("False Converging")
			undo := change(r)
			r.pass(true)
			undo()
			r.now = r.now.Add(time.Hour)
			r.expect("False Converging")
			r.now = r.now.Add(etcd.Patience)
			r.expect("True MembersCurrent")
			if gone := r.etcd.removed(); !slices.Equal(gone, []string{"remove etcd 8"}) {
				t.Errorf("it did %q", gone)
			}
		})
	}
}

// It may recover between the plan and the removal, and may be away for a moment again and again.
func TestAnEtcdMemberThatRecoversStays(t *testing.T) {
	r := strayed(t, true)
	r.expect("False Converging")
	r.now = r.now.Add(etcd.Patience - time.Second)
	r.etcd.sick[8] = false
	r.expect("True MembersCurrent")
	r.etcd.sick[8] = true
	r.now = r.now.Add(time.Second)
	r.expect("False Converging")
	r.now = r.now.Add(etcd.Patience)
	plan, err := r.step.Plan(t.Context(), r.doc)
	if err != nil || len(plan.Actions) != 1 {
		t.Fatalf("it plans %+v, %v", plan.Actions, err)
	}
	r.etcd.sick[8] = false
	if err := plan.Actions[0].Do(t.Context()); err == nil {
		t.Error("a member that is healthy was removed")
	}
	r.did()
}

// One at a time: the others are asked again in between.
func TestEtcdMembersWithoutANodeAreRemovedOneByOne(t *testing.T) {
	r := strayed(t, true)
	r.etcd.join(9, false)
	r.expect("False Converging")
	r.now = r.now.Add(etcd.Patience)
	r.pass(true)
	if gone := r.etcd.removed(); len(gone) != 1 {
		t.Errorf("it did %q", gone)
	}
	r.expect("True MembersCurrent")
	r.did("remove etcd 9")
}
