package reconcile_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	caOther = "sha256:2222222222222222222222222222222222222222222222222222222222222222"
)

// What a machine says of the cluster is believed of one machine only.
func TestOnlyTheMemberThatSpeaksIsBelieved(t *testing.T) {
	second := lifecycletest.UUID(2, 2)
	three := lifecycletest.FullTopology()
	three.Servers = append(three.Servers, lifecycletest.Server(second, "master"))
	wrong := &api.ClusterFacts{CACertificateHash: caOther, CACertificate: "another CA", Token: "another"}
	for name, says := range map[string]func(*lifecycletest.World){
		"a worker":       func(w *lifecycletest.World) { w.ReportCluster(lifecycletest.WorkerServer, wrong) },
		"another master": func(w *lifecycletest.World) { w.ReportCluster(second, wrong) },
		"a report of another epoch": func(w *lifecycletest.World) {
			s := w.Status(lifecycletest.MasterServer)
			s.Epoch, s.Cluster = s.Epoch-1, wrong
			w.Report(lifecycletest.MasterServer, s)
		},
		"a machine that was revoked": func(w *lifecycletest.World) {
			w.Must(w.Enrollment.Revoke(w.Ctx, lifecycletest.MasterServer, "by hand"))
			w.ReportCluster(lifecycletest.MasterServer, wrong)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Joined(t, three)
			says(w)
			if got := w.ClusterAccess(); got.Token != lifecycletest.VIMToken || w.Document(lifecycletest.WorkerServer).Cluster.CACertificateHash != lifecycletest.CAHash {
				t.Errorf("it is believed: %+v", got)
			}
		})
	}
	t.Run("a master that is no member yet", func(t *testing.T) {
		w := lifecycletest.New(t)
		w.Put(lifecycletest.WithMembers(lifecycletest.FullTopology()))
		w.Must(w.Enroll(lifecycletest.MasterServer))
		w.ReportNotJoined(lifecycletest.MasterServer)
		s := w.Status(lifecycletest.MasterServer)
		s.Conditions, s.Cluster = nil, wrong
		w.Report(lifecycletest.MasterServer, s)
		s.Cluster = &api.ClusterFacts{CACertificate: "another CA", Token: "another"}
		w.Report(lifecycletest.MasterServer, s)
		w.Converge(lifecycletest.MasterServer)
		if got := w.Document(lifecycletest.WorkerServer).Cluster.CACertificateHash; got != "" {
			t.Errorf("it is believed: %s", got)
		}
		_, err := w.Lifecycle.Instances.ClusterAccess(w.Ctx, lifecycletest.InstanceID)
		w.WantRefused(err, api.ProblemNotFound)
	})
}

// A token that is renewed concerns the VIM, and no machine; another CA concerns all of them.
func TestWhatIsNewOfACluster(t *testing.T) {
	w := lifecycletest.Joined(t, lifecycletest.FullTopology())
	before := w.Document(lifecycletest.WorkerServer).Generation
	renewed := &api.ClusterFacts{CACertificateHash: lifecycletest.CAHash, Token: "renewed"}
	w.ReportCluster(lifecycletest.MasterServer, renewed)
	if got := w.ClusterAccess(); got.Token != "renewed" || got.CACertificate != "PEM of the CA" || got.TokenExpiresAt != nil {
		t.Errorf("access %+v, want the renewed token and the CA as before", got)
	}
	if w.Writes(func() { w.ReportCluster(lifecycletest.MasterServer, renewed) }) {
		t.Error("the same again was written")
	}
	if w.Writes(func() { w.ReportCluster(lifecycletest.MasterServer, &api.ClusterFacts{}) }) {
		t.Error("a master that says nothing was written")
	}
	if got := w.Document(lifecycletest.WorkerServer).Generation; got != before {
		t.Errorf("the worker's document is of generation %d, was %d", got, before)
	}
	w.ReportCluster(lifecycletest.MasterServer, &api.ClusterFacts{CACertificateHash: caOther})
	if got := w.Document(lifecycletest.WorkerServer).Cluster.CACertificateHash; got != caOther {
		t.Errorf("the worker has the hash %s", got)
	}
	_, err := w.Lifecycle.Instances.ClusterAccess(w.Ctx, lifecycletest.InstanceID)
	w.WantRefused(err, api.ProblemNotFound) // the token was of the other cluster
}

// A master that left, or fell silent, keeps nothing of what the one has that speaks now.
func TestSecretsLeaveTheMasterThatSpeaksNoMore(t *testing.T) {
	second := lifecycletest.UUID(2, 2)
	two := lifecycletest.FullTopology()
	two.Servers = append(two.Servers, lifecycletest.Server(second, "master"))
	for name, leaves := range map[string]func(*lifecycletest.World){
		"it left the topology": func(w *lifecycletest.World) {
			w.Put(lifecycletest.WithMembers(lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.StorageServer, "storage"), lifecycletest.Server(second, "master"), lifecycletest.Server(lifecycletest.WorkerServer, "worker"))))
		},
		"it fell silent": func(w *lifecycletest.World) {
			for range 4 {
				w.Clock.Advance(lifecycletest.PollInterval)
				w.Lifecycle.Nodes.Seen(second)
				w.Must(w.Lifecycle.Sweep(w.Ctx))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.Joined(t, two)
			if c := w.Document(lifecycletest.MasterServer); c.ClusterMembers == nil || c.ClusterAccess == nil || w.Document(second).ClusterMembers != nil {
				t.Fatalf("at first %+v has %v", lifecycletest.MasterServer, c.Sections())
			}
			endpoint := w.Document(second).Cluster.Endpoint
			leaves(w)
			if n := w.Node(lifecycletest.MasterServer); n.CertificateSerial == "" {
				t.Fatalf("%+v, want it to have its identity still", n)
			}
			old, now := w.Document(lifecycletest.MasterServer), w.Document(second)
			if old.ClusterMembers != nil || old.ClusterAccess != nil || now.ClusterMembers == nil || now.ClusterAccess == nil {
				t.Errorf("the old one has %v, the other one %v", old.Sections(), now.Sections())
			}
			if now.Cluster.Initialize || now.Cluster.Endpoint != endpoint || now.Cluster.CACertificateHash != lifecycletest.CAHash {
				t.Errorf("the cluster is another one: %+v", now.Cluster)
			}
			if got := w.ClusterAccess(); got.Token != lifecycletest.VIMToken {
				t.Errorf("the access is lost until the other master reports: %+v", got)
			}
		})
	}
}

// All masters of an entire heal are new, and so is their cluster.
func TestAnEntireHealMakesAnotherCluster(t *testing.T) {
	w := lifecycletest.Joined(t, lifecycletest.FullTopology())
	fresh := lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.UUID(1, 2), "storage"), lifecycletest.Server(lifecycletest.UUID(2, 2), "master"), lifecycletest.Server(lifecycletest.UUID(3, 2), "worker"))
	fresh.StackID = lifecycletest.StackTwo
	w.Post(lifecycletest.Heal(api.PhaseStart, nil))
	w.Post(lifecycletest.Heal(api.PhaseEnd, fresh))
	if c := w.Document(lifecycletest.UUID(2, 2)).Cluster; c.Initialize || c.CACertificateHash != "" {
		t.Errorf("before it has said anything the new master has %+v", c)
	}
	w.Must(w.Enroll(lifecycletest.UUID(2, 2)))
	w.ReportNotJoined(lifecycletest.UUID(2, 2))
	if c := w.Document(lifecycletest.UUID(2, 2)).Cluster; !c.Initialize || c.CACertificateHash != "" {
		t.Errorf("the new master has %+v", c)
	}
	_, err := w.Lifecycle.Instances.ClusterAccess(w.Ctx, lifecycletest.InstanceID)
	w.WantRefused(err, api.ProblemNotFound, lifecycletest.UUID(2, 2))
}

// What a worker reports of its membership costs the same whatever the size of the cluster: the
// first convergence of many must not plan all of them for each of them.
func TestTheMembershipOfAWorkerPlansNothing(t *testing.T) {
	cost := func(workers int) float64 {
		topology := lifecycletest.FullTopology()
		for i := range workers {
			topology.Servers = append(topology.Servers, lifecycletest.Server(lifecycletest.UUID(3, i+2), "worker"))
		}
		w := lifecycletest.Joined(t, topology)
		return testing.AllocsPerRun(5, func() {
			w.ReportNotJoined(lifecycletest.WorkerServer)
			w.Converge(lifecycletest.WorkerServer)
		})
	}
	few, many := cost(2), cost(100)
	t.Logf("%.0f allocations with 3 workers, %.0f with 101", few, many)
	if many > 2*few {
		t.Errorf("a worker's reports cost %.0f allocations with 101 workers, %.0f with 3", many, few)
	}
}
