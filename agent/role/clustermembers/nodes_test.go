package clustermembers_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi/kubeapitest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestEachMembersNodeNamesItsServer(t *testing.T) {
	r := owner(t, 2)
	r.api.Put(nodes+"worker", kubeapitest.Node(id(1), true)) // under another name
	r.api.Put(nodes+"stranger", kubeapitest.Node(id(9), false))
	r.expect("True MembersCurrent", "2 of 2")
	r.did("PATCH " + nodes + "worker")
	if got := kubeapitest.Metadata(r.api.Get(nodes + "worker"))["annotations"].(kubeapitest.Object)[kubeapi.ServerIDAnnotation]; got != id(1) {
		t.Errorf("the annotation is %v", got)
	}
	r.restart()
	r.expect("True MembersCurrent")
	r.did()
}

func TestTheNodeOfADeletedServerIsRemovedWhenItIsNotReady(t *testing.T) {
	r := owner(t, 3)
	r.node(1, true)
	r.node(2, true)
	for n := range 3 {
		r.etcd.join(n, true)
	}
	r.expect("True MembersCurrent")
	r.drop()
	r.expect("False Converging", "Node server-2 is of server "+id(2), "still Ready")
	r.did()
	r.node(2, false)
	r.expect("True MembersCurrent", "2 of 2")
	r.did("DELETE "+nodes+"server-2", "remove etcd 2")
	r.has("server-0", "server-1")
	r.restart()
	r.expect("True MembersCurrent")
	r.did()
}

func TestAnEtcdMemberThatNeverStartedIsKnownByItsAddress(t *testing.T) {
	r := owner(t, 2)
	r.node(1, false)
	r.etcd.join(0, true)
	r.etcd.join(1, false)
	r.drop()
	r.expect("True MembersCurrent")
	r.did("DELETE "+nodes+"server-1", "remove etcd 1")
}

// Heat gives the address of a server that it replaces to the new one.
func TestTheEtcdMemberOfAMasterAtTheAddressOfADeletedOneStays(t *testing.T) {
	r := owner(t, 2)
	r.node(1, false)
	r.etcd.join(0, true)
	r.etcd.join(1, false) // the new one's
	r.doc.ClusterMembers.Members[1].ServerID = id(7)
	r.expect("True MembersCurrent", "1 of 2")
	r.did("PATCH "+secrets+"token1", "DELETE "+nodes+"server-1")
}

// A worker, and a control plane with an etcd of its own elsewhere.
func TestWithoutAnEtcdMemberTheNodeAloneIsDeleted(t *testing.T) {
	for name, change := range map[string]func(r *rig){
		"a worker": func(r *rig) { r.etcd.join(0, true) },
		"no etcd here": func(r *rig) {
			r.etcd.join(1, true)
			for path := range r.m.Files {
				if path != kubeapi.AdminKubeconfig {
					delete(r.m.Files, path)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := owner(t, 2)
			change(r)
			r.node(1, false)
			r.drop()
			r.expect("True MembersCurrent")
			r.did("DELETE " + nodes + "server-1")
		})
	}
}

// The Node is what the etcd member is known by, so it goes last.
func TestANodeStaysWhileItsEtcdMemberDoes(t *testing.T) {
	r := owner(t, 2)
	r.etcd.join(0, true)
	r.etcd.join(1, true)
	r.node(1, false)
	r.drop()
	r.etcd.refuse = "etcdserver: re-configuration failed due to not enough started members"
	r.expect("False Converging", "the etcd member of Node server-1 stays until enough of the others run")
	r.did()
	r.etcd.refuse = ""
	url := r.etcd.URL
	r.etcd.URL = "https://127.0.0.1:1"
	r.restart()
	r.expect("False ClusterNotInstalled", "etcd does not answer")
	r.did()
	r.etcd.URL = url
	r.restart()
	r.expect("True MembersCurrent")
	r.did("DELETE "+nodes+"server-1", "remove etcd 1")
}

func TestWhatIsNotADeletedServersNodeStays(t *testing.T) {
	for name, change := range map[string]func(o kubeapitest.Object){
		"it has no annotation": func(o kubeapitest.Object) { delete(kubeapitest.Metadata(o), "annotations") },
		"it is another machine's now": func(o kubeapitest.Object) {
			o["status"].(kubeapitest.Object)["nodeInfo"] = kubeapitest.Object{"systemUUID": id(9)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := owner(t, 2)
			r.node(1, false)
			o := r.api.Get(nodes + "server-1")
			change(o)
			r.api.Put(nodes+"server-1", o)
			r.drop()
			r.expect("True MembersCurrent")
			r.did()
		})
	}
}

// A server that took over the Node of a deleted one, by its name.
func TestANodeThatAMemberTookOverIsAnnotatedAnew(t *testing.T) {
	r := owner(t, 2)
	o := kubeapitest.Node(id(1), false)
	kubeapitest.Metadata(o)["annotations"] = kubeapitest.Object{kubeapi.ServerIDAnnotation: id(7)}
	r.api.Put(nodes+"server-7", o)
	r.expect("True MembersCurrent", "2 of 2")
	r.did("PATCH " + nodes + "server-7")
	r.has("server-0", "server-7")
}

// It became Ready after the agent has looked.
func TestANodeThatCameBackIsNotDeleted(t *testing.T) {
	r := owner(t, 2)
	r.node(1, false)
	r.drop()
	r.api.Before = func(request string) {
		if request == "DELETE "+nodes+"server-1" {
			r.api.Before = nil
			o := r.api.Get(nodes + "server-1") // the same object
			o["status"] = kubeapitest.Node(id(1), true)["status"]
			r.api.Put(nodes+"server-1", o)
		}
	}
	r.expect("False Converging", "still Ready")
	r.has("server-0", "server-1")
}

func TestMoreNodesThanOneAnswerHas(t *testing.T) {
	r := owner(t, 2)
	for n := range 250 {
		r.api.Put(fmt.Sprintf("%sa-%03d", nodes, n), kubeapitest.Node(id(100+n), true))
	}
	r.node(1, true)
	r.expect("True MembersCurrent", "2 of 2")
	r.did()
}

// The agent is killed before each change: a new one ends where one would have that was not.
func TestACrashBeforeEachChange(t *testing.T) {
	situation := func(t *testing.T) *rig {
		r := owner(t, 5)
		r.api.Put(nodes+"other", kubeapitest.Node(id(1), true))
		r.node(2, false)
		r.node(4, false)
		for n := range 5 {
			r.etcd.join(n, true)
		}
		r.drop()
		m := r.doc.ClusterMembers.Members
		r.doc.ClusterMembers.Members = slices.Delete(m, 2, 3) // 2 and 4 are gone, 3 has not joined
		return r
	}
	whole := situation(t)
	whole.expect("True MembersCurrent")
	plan := len(whole.api.Did()) + len(whole.etcd.removed())
	if plan != 6 {
		t.Fatalf("there are %d changes, want 6: an annotation, a token, two etcd members, two Nodes", plan)
	}
	for n := range plan + 1 {
		r := situation(t)
		p, err := r.step.Plan(t.Context(), r.doc)
		if err != nil || len(p.Actions) != plan {
			t.Fatalf("%d actions, %v", len(p.Actions), err)
		}
		for _, a := range p.Actions[:n] {
			if err := a.Do(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		r.restart()
		r.expect("True MembersCurrent")
		if did := len(r.api.Did()) + len(r.etcd.removed()); did != plan {
			t.Errorf("killed before change %d: %d changes in all, want %d", n, did, plan)
		}
		r.has(whole.names()...)
		r.restart()
		r.expect("True MembersCurrent")
		r.did()
	}
}

func TestNoSectionChangesNothing(t *testing.T) {
	r := owner(t, 2)
	r.doc.ClusterMembers = nil
	if report := r.pass(true); report.Condition(api.ConditionClusterMembersCurrent) != nil || report.Changed {
		t.Errorf("%+v", report)
	}
	r.did()
}
