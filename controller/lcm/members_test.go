package lcm_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	caHash  = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	caOther = "sha256:2222222222222222222222222222222222222222222222222222222222222222"
	vim     = "vim-t0ken.of-the.cluster"
)

// withMembers is the cluster with cluster_members.
func withMembers(t *api.Topology) api.InstanceSpec {
	return api.InstanceSpec{Topology: t,
		AdditionalParams: json.RawMessage(strings.Replace(string(parameters("10.10.0.0/24")), `"script_path"`, `"cluster_members": {}, "script_path"`, 1))}
}

// config is the document of a node.
func (w *world) config(nodeID string) api.NodeConfig {
	w.Helper()
	config, _, err := w.LCM.Nodes.NodeConfig(w.ctx, nodeID)
	w.must(err)
	return config
}

// facts are what the master that speaks for the cluster reports of it.
func facts() *api.ClusterFacts {
	expires := time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)
	return &api.ClusterFacts{CACertificateHash: caHash, CACertificate: "PEM of the CA", Token: vim, TokenExpiresAt: &expires}
}

// tell is a report of a machine that has converged, with this of the cluster.
func (w *world) tell(nodeID string, facts *api.ClusterFacts) {
	w.Helper()
	s := w.status(nodeID)
	s.Cluster = facts
	w.report(nodeID, s)
}

// notJoined is a report of a machine that is no member of the cluster.
func (w *world) notJoined(nodeID string) {
	w.Helper()
	s := w.status(nodeID)
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == api.ConditionClusterMember || c.Type == api.ConditionReady {
			c.Status, c.Reason = api.ConditionFalse, api.ReasonNotJoined
		}
	}
	w.report(nodeID, s)
}

// access wants to be told how a VIM uses the cluster.
func (w *world) access() api.ClusterAccess {
	w.Helper()
	access, err := w.LCM.Instances.ClusterAccess(w.ctx, instanceID)
	w.must(err)
	return access
}

// joined is an instance whose servers are all members of their cluster.
func joined(t tester, topology *api.Topology) *world {
	t.Helper()
	w := newWorld(t)
	w.put(withMembers(topology))
	w.upload(script, "#!/bin/sh\n")
	op := w.post(request(api.Instantiate, api.PhaseEnd))
	w.converge(storageServer, masterServer) // the first one makes the cluster
	w.tell(masterServer, facts())
	for _, s := range topology.Servers {
		w.converge(s.ID)
	}
	w.wantState(op, api.Completed)
	return w
}

// The master that makes the cluster comes first, then the hash of its CA reaches the others,
// and the END is over once all are members.
func TestAnInstanceIsInstantiatedOnceItsServersAreMembers(t *testing.T) {
	w := newWorld(t)
	w.put(withMembers(full()))
	w.upload(script, "#!/bin/sh\n")
	op := w.post(request(api.Instantiate, api.PhaseEnd))
	w.converge(storageServer)
	w.must(w.enroll(masterServer))
	w.must(w.enroll(workerServer))
	w.notJoined(workerServer)
	if w.config(masterServer).Cluster.Initialize {
		t.Fatal("a master that may be a member is told to make the cluster")
	}
	w.notJoined(masterServer)
	if c := w.config(masterServer); !c.Cluster.Initialize || c.Cluster.CACertificateHash != "" || c.ClusterMembers != nil || c.ClusterAccess != nil {
		t.Fatalf("before there is a cluster the master has %+v", c)
	}
	w.notJoined(masterServer)
	target := func(id string) api.OperationTarget {
		targets := w.operation(op.ID).Targets
		return targets[slices.IndexFunc(targets, func(target api.OperationTarget) bool { return target.NodeID == id })]
	}
	if got := target(masterServer); got.Reason != api.ReasonNotJoined || !strings.HasPrefix(got.Message, api.ConditionClusterMember) {
		t.Errorf("the END waits for %+v, want the master's own condition", got)
	}

	w.converge(masterServer)
	if c := w.config(masterServer); c.Cluster.Initialize || len(c.ClusterMembers.Members) != 2 || c.ClusterAccess == nil {
		t.Fatalf("once it is a member the master has %+v", c)
	}
	if c := w.config(workerServer).Cluster; c.CACertificateHash != "" {
		t.Fatalf("before the hash is known the worker has %+v", c)
	}
	w.tell(masterServer, facts())
	if c := w.config(workerServer).Cluster; c.CACertificateHash != caHash || c.Endpoint != "10.10.0.5:6443" {
		t.Fatalf("once the hash is known the worker has %+v", c)
	}
	w.notJoined(workerServer)
	w.converge(masterServer)
	if got := w.wantState(op, api.Processing); !target(masterServer).Ready || target(workerServer).Ready {
		t.Errorf("the END waits for %+v, want the worker alone", got.Targets)
	}
	w.converge(workerServer)
	w.wantState(op, api.Completed)
}

func TestTheAccessToACluster(t *testing.T) {
	refused := func(w *world, says ...string) {
		t.Helper()
		_, err := w.LCM.Instances.ClusterAccess(w.ctx, instanceID)
		w.refused(err, api.ProblemNotFound, says...)
	}
	w := newWorld(t)
	w.put(spec(full()))
	refused(w, instanceID, "its parameters have no cluster_members")
	w.put(withMembers(nil))
	refused(w, "has not reported any yet: NotEnrolled, its agent has not enrolled")
	w.converge(storageServer, masterServer)
	w.notJoined(masterServer)
	refused(w, "master ("+masterServer+")", "NotJoined, ClusterMember")
	w.converge(masterServer)
	w.converge(masterServer) // what it has because it is a member, too
	refused(w, "is ready and has not reported any")
	half := facts()
	half.Token = ""
	w.tell(masterServer, half)
	refused(w, "has not reported any")
	w.tell(masterServer, facts())
	want := api.ClusterAccess{Endpoint: "10.10.0.5:6443", CACertificate: "PEM of the CA", Token: vim, TokenExpiresAt: facts().TokenExpiresAt}
	if diff := cmp.Diff(want, w.access()); diff != "" {
		t.Errorf("access (-want +got):\n%s", diff)
	}

	outside := full()
	outside.Servers[1].ConnectionPoints = append(outside.Servers[1].ConnectionPoints,
		api.ConnectionPoint{Name: "masterNode_FIP", Addresses: []string{"10.10.0.5"}, FloatingAddresses: []string{"203.0.113.5"}})
	named := withMembers(outside)
	named.AdditionalParams = json.RawMessage(strings.Replace(string(named.AdditionalParams), `"cluster_cp_name"`, `"cluster_fip_name": "masterNode_FIP", "cluster_cp_name"`, 1))
	w.put(named)
	if got := w.access(); got.Endpoint != "203.0.113.5:6443" || w.config(masterServer).Cluster.ExternalAddress != "203.0.113.5" || w.config(workerServer).Cluster.Endpoint != "10.10.0.5:6443" {
		t.Errorf("with a floating address it is %+v, and the master has %+v", got, w.config(masterServer).Cluster)
	}
}

// What a machine says of the cluster is believed of one machine only.
func TestOnlyTheMemberThatSpeaksIsBelieved(t *testing.T) {
	second := uuid(2, 2)
	three := full()
	three.Servers = append(three.Servers, server(second, "master"))
	wrong := &api.ClusterFacts{CACertificateHash: caOther, CACertificate: "another CA", Token: "another"}
	for name, says := range map[string]func(*world){
		"a worker":       func(w *world) { w.tell(workerServer, wrong) },
		"another master": func(w *world) { w.tell(second, wrong) },
		"a report of another epoch": func(w *world) {
			s := w.status(masterServer)
			s.Epoch, s.Cluster = s.Epoch-1, wrong
			w.report(masterServer, s)
		},
		"a machine that was revoked": func(w *world) {
			w.must(w.Enrollment.Revoke(w.ctx, masterServer, "by hand"))
			w.tell(masterServer, wrong)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := joined(t, three)
			says(w)
			if got := w.access(); got.Token != vim || w.config(workerServer).Cluster.CACertificateHash != caHash {
				t.Errorf("it is believed: %+v", got)
			}
		})
	}
	t.Run("a master that is no member yet", func(t *testing.T) {
		w := newWorld(t)
		w.put(withMembers(full()))
		w.must(w.enroll(masterServer))
		w.notJoined(masterServer)
		s := w.status(masterServer)
		s.Conditions, s.Cluster = nil, wrong
		w.report(masterServer, s)
		s.Cluster = &api.ClusterFacts{CACertificate: "another CA", Token: "another"}
		w.report(masterServer, s)
		w.converge(masterServer)
		if got := w.config(workerServer).Cluster.CACertificateHash; got != "" {
			t.Errorf("it is believed: %s", got)
		}
		_, err := w.LCM.Instances.ClusterAccess(w.ctx, instanceID)
		w.refused(err, api.ProblemNotFound)
	})
}

// A token that is renewed concerns the VIM, and no machine; another CA concerns all of them.
func TestWhatIsNewOfACluster(t *testing.T) {
	w := joined(t, full())
	before := w.config(workerServer).Generation
	renewed := &api.ClusterFacts{CACertificateHash: caHash, Token: "renewed"}
	w.tell(masterServer, renewed)
	if got := w.access(); got.Token != "renewed" || got.CACertificate != "PEM of the CA" || got.TokenExpiresAt != nil {
		t.Errorf("access %+v, want the renewed token and the CA as before", got)
	}
	if w.writes(func() { w.tell(masterServer, renewed) }) {
		t.Error("the same again was written")
	}
	if w.writes(func() { w.tell(masterServer, &api.ClusterFacts{}) }) {
		t.Error("a master that says nothing was written")
	}
	if got := w.config(workerServer).Generation; got != before {
		t.Errorf("the worker's document is of generation %d, was %d", got, before)
	}
	w.tell(masterServer, &api.ClusterFacts{CACertificateHash: caOther})
	if got := w.config(workerServer).Cluster.CACertificateHash; got != caOther {
		t.Errorf("the worker has the hash %s", got)
	}
	_, err := w.LCM.Instances.ClusterAccess(w.ctx, instanceID)
	w.refused(err, api.ProblemNotFound) // the token was of the other cluster
}

// Each secret of the cluster is where it must be, and nowhere else in plain text.
func TestSecretsOfAClusterAreSealed(t *testing.T) {
	w := joined(t, full())
	w.tell(masterServer, facts()) // what it has reported last
	master, worker := w.config(masterServer), w.config(workerServer).Cluster
	secrets := []string{vim, master.Cluster.BootstrapToken, worker.BootstrapToken, master.Cluster.CertificateKey}
	nodes, err := w.LCM.Nodes.ListNodes(w.ctx, instanceID, true)
	w.must(err)
	plan, err := w.LCM.Instances.PlanInstance(w.ctx, instanceID, spec(nil))
	w.must(err)
	shown, err := json.Marshal([]any{w.instance(), nodes, w.operations(), plan})
	w.must(err)
	var backup bytes.Buffer
	taken, err := w.Backups.Take(w.ctx)
	w.must(err)
	w.must(taken.Write(w.ctx, &backup))
	w.must(taken.Close())
	for where, text := range map[string][]byte{"what people are shown": shown, "the store": w.Content(), "a backup": backup.Bytes()} {
		if !bytes.Contains(text, []byte(workerServer)) {
			t.Errorf("%s does not even name the worker", where)
		}
		for _, secret := range secrets {
			if secret == "" || bytes.Contains(text, []byte(secret)) {
				t.Errorf("%q is in %s", secret, where)
			}
		}
	}
	if text, err := json.Marshal(w.config(workerServer)); err != nil || bytes.Contains(text, []byte(master.Cluster.BootstrapToken)) || bytes.Contains(text, []byte(master.Cluster.CertificateKey)) {
		t.Errorf("the worker's document has a secret of the master: %s (%v)", text, err)
	}
}

// A master that left, or fell silent, keeps nothing of what the one has that speaks now.
func TestSecretsLeaveTheMasterThatSpeaksNoMore(t *testing.T) {
	second := uuid(2, 2)
	two := full()
	two.Servers = append(two.Servers, server(second, "master"))
	for name, leaves := range map[string]func(*world){
		"it left the topology": func(w *world) {
			w.put(withMembers(topologyOf(server(storageServer, "storage"), server(second, "master"), server(workerServer, "worker"))))
		},
		"it fell silent": func(w *world) {
			for range 4 {
				w.Clock.Advance(cadence)
				w.LCM.Nodes.Seen(second)
				w.must(w.LCM.Sweep(w.ctx))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := joined(t, two)
			if c := w.config(masterServer); c.ClusterMembers == nil || c.ClusterAccess == nil || w.config(second).ClusterMembers != nil {
				t.Fatalf("at first %+v has %v", masterServer, c.Sections())
			}
			endpoint := w.config(second).Cluster.Endpoint
			leaves(w)
			if n := w.node(masterServer); n.CertificateSerial == "" {
				t.Fatalf("%+v, want it to have its identity still", n)
			}
			old, now := w.config(masterServer), w.config(second)
			if old.ClusterMembers != nil || old.ClusterAccess != nil || now.ClusterMembers == nil || now.ClusterAccess == nil {
				t.Errorf("the old one has %v, the other one %v", old.Sections(), now.Sections())
			}
			if now.Cluster.Initialize || now.Cluster.Endpoint != endpoint || now.Cluster.CACertificateHash != caHash {
				t.Errorf("the cluster is another one: %+v", now.Cluster)
			}
			if got := w.access(); got.Token != vim {
				t.Errorf("the access is lost until the other master reports: %+v", got)
			}
		})
	}
}

// A year later: one more worker joins with its own token, and no other document changes but
// that of the master that keeps the token valid.
func TestAWorkerJoinsAYearLater(t *testing.T) {
	second, added := uuid(2, 2), uuid(3, 2)
	topology := full()
	topology.Servers = append(topology.Servers, server(second, "master"))
	w := joined(t, topology)
	ids := []string{storageServer, masterServer, second, workerServer}
	w.Clock.Advance(365 * 24 * time.Hour)
	w.restart()
	w.must(w.LCM.Sweep(w.ctx))
	for _, id := range ids { // their certificates were renewed meanwhile
		w.LCM.Nodes.Seen(id)
	}
	before := map[string]api.NodeConfig{}
	for _, id := range ids {
		before[id] = w.config(id)
	}

	topology.Servers = append(topology.Servers, server(added, "worker"))
	op := w.post(scale(api.ScaleOut, api.PhaseEnd, topology))
	w.must(w.enroll(added))
	token := w.config(added).Cluster.BootstrapToken
	for _, id := range ids {
		was, is := before[id], w.config(id)
		if id == masterServer {
			i := slices.IndexFunc(is.ClusterMembers.Members, func(m api.ClusterMember) bool { return m.ServerID == added })
			if i < 0 || is.ClusterMembers.Members[i].BootstrapToken != token {
				t.Fatalf("the master keeps %+v, the new worker has %q", is.ClusterMembers.Members, token)
			}
			is.ClusterMembers.Members = slices.Delete(slices.Clone(is.ClusterMembers.Members), i, i+1)
			is.Generation = was.Generation
		}
		if diff := cmp.Diff(was, is); diff != "" {
			t.Errorf("the document of %s (-before +after):\n%s", id, diff)
		}
	}
	if c := w.config(added).Cluster; c.CACertificateHash != caHash || c.Initialize || !slices.ContainsFunc(c.Masters, func(m api.ClusterServer) bool { return m.ServerID == second }) {
		t.Errorf("the new worker has %+v", c)
	}
	w.wantState(op, api.Processing)
	w.notJoined(added)
	w.converge(masterServer)
	w.wantState(op, api.Processing)
	w.converge(added)
	w.wantState(op, api.Completed)
}

// Nothing of a cluster outlives it: neither its CA nor a secret of its members.
func TestAClusterEndsWithTheInstance(t *testing.T) {
	w := joined(t, full())
	before := w.config(masterServer).Cluster
	w.wantState(w.post(request(api.Terminate, api.PhaseEnd)), api.Completed)
	_, err := w.LCM.Instances.ClusterAccess(w.ctx, instanceID)
	w.refused(err, api.ProblemNotFound, "it has no master yet")
	again := full()
	again.StackID = stackTwo
	w.put(withMembers(again))
	w.must(w.enroll(masterServer))
	w.notJoined(masterServer)
	if now := w.config(masterServer).Cluster; !now.Initialize || now.CACertificateHash != "" || now.BootstrapToken == before.BootstrapToken || now.CertificateKey == before.CertificateKey {
		t.Errorf("the next cluster begins with %+v, the last one had %+v", now, before)
	}
}

// All masters of an entire heal are new, and so is their cluster.
func TestAnEntireHealMakesAnotherCluster(t *testing.T) {
	w := joined(t, full())
	fresh := topologyOf(server(uuid(1, 2), "storage"), server(uuid(2, 2), "master"), server(uuid(3, 2), "worker"))
	fresh.StackID = stackTwo
	w.post(heal(api.PhaseStart, nil))
	w.post(heal(api.PhaseEnd, fresh))
	if c := w.config(uuid(2, 2)).Cluster; c.Initialize || c.CACertificateHash != "" {
		t.Errorf("before it has said anything the new master has %+v", c)
	}
	w.must(w.enroll(uuid(2, 2)))
	w.notJoined(uuid(2, 2))
	if c := w.config(uuid(2, 2)).Cluster; !c.Initialize || c.CACertificateHash != "" {
		t.Errorf("the new master has %+v", c)
	}
	_, err := w.LCM.Instances.ClusterAccess(w.ctx, instanceID)
	w.refused(err, api.ProblemNotFound, uuid(2, 2))
}

// The only master enrolls anew, or the state is restored from before the cluster was made: it is
// not told to make the cluster that it may have, and says first whether it has.
func TestAClusterThatTheControllerDoesNotKnowIsNotMadeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		forgets func(*world)
		hash    string
	}{
		"enrolled anew": {func(w *world) {
			w.tell(masterServer, facts())
			w.must(w.Enrollment.Reenroll(w.ctx, masterServer))
			w.must(w.enroll(masterServer))
		}, caHash},
		"restored": {func(w *world) {
			w.restored() // what it reported of its membership was not in the backup
			_, err := w.LCM.Instances.ConfirmInstance(w.ctx, instanceID)
			w.must(err)
		}, ""},
	} {
		for _, member := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, a member %v", name, member), func(t *testing.T) {
				w := newWorld(t)
				w.put(withMembers(full()))
				w.upload(script, "#!/bin/sh\n")
				w.must(w.enroll(masterServer))
				w.notJoined(masterServer)
				if !w.config(masterServer).Cluster.Initialize {
					t.Fatal("the only master is not told to make the cluster")
				}
				if c.hash != "" {
					w.converge(masterServer)
				}
				c.forgets(w)
				if now := w.config(masterServer).Cluster; now.Initialize || now.CACertificateHash != c.hash {
					t.Fatalf("before it has said anything it has %+v", now)
				}
				if member {
					w.converge(masterServer)
				} else {
					w.notJoined(masterServer)
				}
				if now := w.config(masterServer).Cluster; now.Initialize == member {
					t.Errorf("once it has said so it has %+v", now)
				}
			})
		}
	}
}

// What a worker reports of its membership costs the same whatever the size of the cluster: the
// first convergence of many must not plan all of them for each of them.
func TestTheMembershipOfAWorkerPlansNothing(t *testing.T) {
	cost := func(workers int) float64 {
		topology := full()
		for i := range workers {
			topology.Servers = append(topology.Servers, server(uuid(3, i+2), "worker"))
		}
		w := joined(t, topology)
		return testing.AllocsPerRun(5, func() {
			w.notJoined(workerServer)
			w.converge(workerServer)
		})
	}
	few, many := cost(2), cost(100)
	t.Logf("%.0f allocations with 3 workers, %.0f with 101", few, many)
	if many > 2*few {
		t.Errorf("a worker's reports cost %.0f allocations with 101 workers, %.0f with 3", many, few)
	}
}
