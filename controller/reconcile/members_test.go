package reconcile_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	caOther = "sha256:2222222222222222222222222222222222222222222222222222222222222222"
)

// What a machine says of the cluster is believed of one machine only.
func TestOnlyTheMemberThatSpeaksIsBelieved(t *testing.T) {
	second := lcmtest.UUID(2, 2)
	three := lcmtest.FullTopology()
	three.Servers = append(three.Servers, lcmtest.Server(second, "master"))
	wrong := &api.ClusterFacts{CACertificateHash: caOther, CACertificate: "another CA", Token: "another"}
	for name, says := range map[string]func(*lcmtest.World){
		"a worker":       func(w *lcmtest.World) { w.ReportCluster(lcmtest.WorkerServer, wrong) },
		"another master": func(w *lcmtest.World) { w.ReportCluster(second, wrong) },
		"a report of another epoch": func(w *lcmtest.World) {
			s := w.Status(lcmtest.MasterServer)
			s.Epoch, s.Cluster = s.Epoch-1, wrong
			w.Report(lcmtest.MasterServer, s)
		},
		"a machine that was revoked": func(w *lcmtest.World) {
			w.Must(w.Enrollment.Revoke(w.Ctx, lcmtest.MasterServer, "by hand"))
			w.ReportCluster(lcmtest.MasterServer, wrong)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := lcmtest.Joined(t, three)
			says(w)
			if got := w.ClusterAccess(); got.Token != lcmtest.VIMToken || w.Document(lcmtest.WorkerServer).Cluster.CACertificateHash != lcmtest.CAHash {
				t.Errorf("it is believed: %+v", got)
			}
		})
	}
	t.Run("a master that is no member yet", func(t *testing.T) {
		w := lcmtest.New(t)
		w.Put(lcmtest.WithMembers(lcmtest.FullTopology()))
		w.Must(w.Enroll(lcmtest.MasterServer))
		w.ReportNotJoined(lcmtest.MasterServer)
		s := w.Status(lcmtest.MasterServer)
		s.Conditions, s.Cluster = nil, wrong
		w.Report(lcmtest.MasterServer, s)
		s.Cluster = &api.ClusterFacts{CACertificate: "another CA", Token: "another"}
		w.Report(lcmtest.MasterServer, s)
		w.Converge(lcmtest.MasterServer)
		if got := w.Document(lcmtest.WorkerServer).Cluster.CACertificateHash; got != "" {
			t.Errorf("it is believed: %s", got)
		}
		_, err := w.LCM.Instances.ClusterAccess(w.Ctx, lcmtest.InstanceID)
		w.WantRefused(err, api.ProblemNotFound)
	})
}

// A token that is renewed concerns the VIM, and no machine; another CA concerns all of them.
func TestWhatIsNewOfACluster(t *testing.T) {
	w := lcmtest.Joined(t, lcmtest.FullTopology())
	before := w.Document(lcmtest.WorkerServer).Generation
	renewed := &api.ClusterFacts{CACertificateHash: lcmtest.CAHash, Token: "renewed"}
	w.ReportCluster(lcmtest.MasterServer, renewed)
	if got := w.ClusterAccess(); got.Token != "renewed" || got.CACertificate != "PEM of the CA" || got.TokenExpiresAt != nil {
		t.Errorf("access %+v, want the renewed token and the CA as before", got)
	}
	if w.Writes(func() { w.ReportCluster(lcmtest.MasterServer, renewed) }) {
		t.Error("the same again was written")
	}
	if w.Writes(func() { w.ReportCluster(lcmtest.MasterServer, &api.ClusterFacts{}) }) {
		t.Error("a master that says nothing was written")
	}
	if got := w.Document(lcmtest.WorkerServer).Generation; got != before {
		t.Errorf("the worker's document is of generation %d, was %d", got, before)
	}
	w.ReportCluster(lcmtest.MasterServer, &api.ClusterFacts{CACertificateHash: caOther})
	if got := w.Document(lcmtest.WorkerServer).Cluster.CACertificateHash; got != caOther {
		t.Errorf("the worker has the hash %s", got)
	}
	_, err := w.LCM.Instances.ClusterAccess(w.Ctx, lcmtest.InstanceID)
	w.WantRefused(err, api.ProblemNotFound) // the token was of the other cluster
}

// A master that left, or fell silent, keeps nothing of what the one has that speaks now.
func TestSecretsLeaveTheMasterThatSpeaksNoMore(t *testing.T) {
	second := lcmtest.UUID(2, 2)
	two := lcmtest.FullTopology()
	two.Servers = append(two.Servers, lcmtest.Server(second, "master"))
	for name, leaves := range map[string]func(*lcmtest.World){
		"it left the topology": func(w *lcmtest.World) {
			w.Put(lcmtest.WithMembers(lcmtest.TopologyOf(lcmtest.Server(lcmtest.StorageServer, "storage"), lcmtest.Server(second, "master"), lcmtest.Server(lcmtest.WorkerServer, "worker"))))
		},
		"it fell silent": func(w *lcmtest.World) {
			for range 4 {
				w.Clock.Advance(lcmtest.Cadence)
				w.LCM.Nodes.Seen(second)
				w.Must(w.LCM.Sweep(w.Ctx))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := lcmtest.Joined(t, two)
			if c := w.Document(lcmtest.MasterServer); c.ClusterMembers == nil || c.ClusterAccess == nil || w.Document(second).ClusterMembers != nil {
				t.Fatalf("at first %+v has %v", lcmtest.MasterServer, c.Sections())
			}
			endpoint := w.Document(second).Cluster.Endpoint
			leaves(w)
			if n := w.Node(lcmtest.MasterServer); n.CertificateSerial == "" {
				t.Fatalf("%+v, want it to have its identity still", n)
			}
			old, now := w.Document(lcmtest.MasterServer), w.Document(second)
			if old.ClusterMembers != nil || old.ClusterAccess != nil || now.ClusterMembers == nil || now.ClusterAccess == nil {
				t.Errorf("the old one has %v, the other one %v", old.Sections(), now.Sections())
			}
			if now.Cluster.Initialize || now.Cluster.Endpoint != endpoint || now.Cluster.CACertificateHash != lcmtest.CAHash {
				t.Errorf("the cluster is another one: %+v", now.Cluster)
			}
			if got := w.ClusterAccess(); got.Token != lcmtest.VIMToken {
				t.Errorf("the access is lost until the other master reports: %+v", got)
			}
		})
	}
}

// Nothing of a cluster outlives it: neither its CA nor a secret of its members.
func TestAClusterEndsWithTheInstance(t *testing.T) {
	w := lcmtest.Joined(t, lcmtest.FullTopology())
	before := w.Document(lcmtest.MasterServer).Cluster
	w.WantState(w.Post(lcmtest.Request(api.Terminate, api.PhaseEnd)), api.Completed)
	_, err := w.LCM.Instances.ClusterAccess(w.Ctx, lcmtest.InstanceID)
	w.WantRefused(err, api.ProblemNotFound, "it has no master yet")
	again := lcmtest.FullTopology()
	again.StackID = lcmtest.StackTwo
	w.Put(lcmtest.WithMembers(again))
	w.Must(w.Enroll(lcmtest.MasterServer))
	w.ReportNotJoined(lcmtest.MasterServer)
	if now := w.Document(lcmtest.MasterServer).Cluster; !now.Initialize || now.CACertificateHash != "" || now.BootstrapToken == before.BootstrapToken || now.CertificateKey == before.CertificateKey {
		t.Errorf("the next cluster begins with %+v, the last one had %+v", now, before)
	}
}

// All masters of an entire heal are new, and so is their cluster.
func TestAnEntireHealMakesAnotherCluster(t *testing.T) {
	w := lcmtest.Joined(t, lcmtest.FullTopology())
	fresh := lcmtest.TopologyOf(lcmtest.Server(lcmtest.UUID(1, 2), "storage"), lcmtest.Server(lcmtest.UUID(2, 2), "master"), lcmtest.Server(lcmtest.UUID(3, 2), "worker"))
	fresh.StackID = lcmtest.StackTwo
	w.Post(lcmtest.Heal(api.PhaseStart, nil))
	w.Post(lcmtest.Heal(api.PhaseEnd, fresh))
	if c := w.Document(lcmtest.UUID(2, 2)).Cluster; c.Initialize || c.CACertificateHash != "" {
		t.Errorf("before it has said anything the new master has %+v", c)
	}
	w.Must(w.Enroll(lcmtest.UUID(2, 2)))
	w.ReportNotJoined(lcmtest.UUID(2, 2))
	if c := w.Document(lcmtest.UUID(2, 2)).Cluster; !c.Initialize || c.CACertificateHash != "" {
		t.Errorf("the new master has %+v", c)
	}
	_, err := w.LCM.Instances.ClusterAccess(w.Ctx, lcmtest.InstanceID)
	w.WantRefused(err, api.ProblemNotFound, lcmtest.UUID(2, 2))
}

// What a worker reports of its membership costs the same whatever the size of the cluster: the
// first convergence of many must not plan all of them for each of them.
func TestTheMembershipOfAWorkerPlansNothing(t *testing.T) {
	cost := func(workers int) float64 {
		topology := lcmtest.FullTopology()
		for i := range workers {
			topology.Servers = append(topology.Servers, lcmtest.Server(lcmtest.UUID(3, i+2), "worker"))
		}
		w := lcmtest.Joined(t, topology)
		return testing.AllocsPerRun(5, func() {
			w.ReportNotJoined(lcmtest.WorkerServer)
			w.Converge(lcmtest.WorkerServer)
		})
	}
	few, many := cost(2), cost(100)
	t.Logf("%.0f allocations with 3 workers, %.0f with 101", few, many)
	if many > 2*few {
		t.Errorf("a worker's reports cost %.0f allocations with 101 workers, %.0f with 3", many, few)
	}
}
