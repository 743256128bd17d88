package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// making is a cluster of machines with empty disks, and what goes wrong while it is made.
type making struct {
	name             string
	masters, workers int
	// agents are killed at the begin and the end of each action, the controller at each progress.
	agents, controller bool
	// When the machine at comes to the moment, machines lose their power; nil: none does.
	at     func(*cluster) *sitetest.Machine
	moment moment
	lose   func(*cluster, *sitetest.Machine) []*sitetest.Machine
	// harm is a program of Python's that does before that what the end of a container does not; "" for nothing.
	harm string
}

// moment is a state that a machine comes to.
type moment struct {
	name string
	// test is of a shell on the machine; "" if the controller knows it: the condition is True.
	test, condition string
}

const (
	inventory   = "/var/lib/nodehitch/agent/inventory.json"
	etcKube     = "/etc/kubernetes/"
	kubeletHome = "/var/lib/kubelet/"
	// The member of the inventory by which the agent remembers that it has started kubeadm.
	initAttempt, joinAttempt = `grep -q '"attempt": "init"' ` + inventory, `grep -q '"attempt": "join"' ` + inventory
	hasJoined                = `test -e ` + etcKube + `kubelet.conf && ! grep -q '"attempt"' ` + inventory
	asAdministrator          = "kubectl --request-timeout=2s --kubeconfig " + etcKube + "admin.conf "
	// An etcd without a vote lists no members.
	etcdVotes = "curl --silent --fail --output /dev/null --data '{}' --cacert " + etcKube + "pki/etcd/ca.crt --cert " + etcKube + "pki/etcd/healthcheck-client.crt --key " + etcKube +
		"pki/etcd/healthcheck-client.key https://127.0.0.1:2379/v3/cluster/member/list"
)

// cutEtcdShort leaves the log of etcd as it is before etcd has written itself into it as a member: with
// the first three records, which say who it is, where it begins and how it is checked.
const cutEtcdShort = `
import glob, os, struct, subprocess
subprocess.run(["pkill", "-STOP", "-x", "kubelet"], check=True)
subprocess.run(["pkill", "-KILL", "-x", "etcd"], check=True)
path = glob.glob("/var/lib/etcd/member/wal/*.wal")[0]
with open(path, "r+b") as log:
    size, end = os.path.getsize(path), 0
    for _ in range(3):
        log.seek(end)
        length, = struct.unpack("<q", log.read(8))
        end += 8 + (length & 0xffffffffffffff) + (length >> 56 & 7 if length < 0 else 0)
    log.truncate(end)
    log.truncate(size)
os.remove("/var/lib/etcd/member/snap/db")
`

func file(path string) string { return "test -e " + path }

// The moments of machines, in the order in which kubeadm 1.34 comes to them.
var (
	ofMakers = []moment{
		{"is-enrolled", file("/var/lib/nodehitch/agent/identity.pem"), ""},
		{"is-checked", "grep -q '\"checked\"' " + inventory, ""},
		{"starts-kubeadm", initAttempt, ""},
		{"has-the-authority", file(etcKube + "pki/ca.crt"), ""},
		{"has-the-key-for-service-accounts", file(etcKube + "pki/sa.pub"), ""},
		{"has-an-administrator", file(etcKube + "admin.conf"), ""},
		{"has-etcds-manifest", file(etcKube + "manifests/etcd.yaml"), ""},
		{"has-all-manifests", file(etcKube + "manifests/kube-scheduler.yaml"), ""},
		{"has-kubelets-configuration", file(kubeletHome + "config.yaml"), ""},
		{"has-etcds-data", file("/var/lib/etcd/member/wal"), ""},
		{"has-an-api-server", "curl --silent --fail --insecure --output /dev/null https://127.0.0.1:6443/livez", ""},
		{"has-uploaded-its-configuration", asAdministrator + "get configmap kubeadm-config --namespace kube-system", ""},
		{"has-published-the-cluster", asAdministrator + "get configmap cluster-info --namespace kube-public", ""},
		{"has-dns", asAdministrator + "get deployment coredns --namespace kube-system", ""},
		{"has-ended-kubeadm", hasJoined, ""},
		{"has-a-network", asAdministrator + "get daemonset podnetwork --namespace kube-system", ""},
		{"is-healthy", "", api.ConditionControlPlaneHealthy},
	}
	ofWorkers = []moment{
		{"is-enrolled", file("/var/lib/nodehitch/agent/identity.pem"), ""},
		{"is-prepared", "", api.ConditionKubernetesInstalled},
		{"starts-kubeadm", joinAttempt, ""},
		{"has-a-token", file(etcKube+"bootstrap-kubelet.conf") + " || " + file(etcKube+"kubelet.conf"), ""},
		{"has-kubelets-configuration", file(kubeletHome + "config.yaml"), ""},
		{"has-kubelets-kubeconfig", file(etcKube + "kubelet.conf"), ""},
		{"has-a-certificate", file(kubeletHome + "pki/kubelet-client-current.pem"), ""},
		{"has-ended-kubeadm", hasJoined, ""},
		{"is-a-member", "", api.ConditionClusterMember},
	}
	ofJoining = []moment{ // the second master of two: once it votes, there is no quorum without it
		{"has-the-authority", file(etcKube + "pki/ca.crt"), ""},
		{"has-certificates", file(etcKube + "pki/apiserver.crt"), ""},
		{"has-an-administrator", file(etcKube + "admin.conf"), ""},
		{"has-an-api-servers-manifest", file(etcKube + "manifests/kube-apiserver.yaml"), ""},
		{"has-kubelets-configuration", file(kubeletHome + "config.yaml"), ""},
		{"has-etcds-manifest", file(etcKube + "manifests/etcd.yaml"), ""},
		{"has-etcds-data", file("/var/lib/etcd/member/wal"), ""},
		{"has-a-vote", etcdVotes, ""},
		{"has-a-certificate", file(kubeletHome + "pki/kubelet-client-current.pem"), ""},
		{"has-ended-kubeadm", hasJoined, ""},
	}
	ofOwners = []moment{ // of the first of two masters that join
		{"starts-kubeadm", joinAttempt, ""},
		{"has-etcds-manifest", file(etcKube + "manifests/etcd.yaml"), ""},
		{"has-etcds-data", file("/var/lib/etcd/member/wal"), ""},
		{"has-a-vote", etcdVotes, ""},
	}
)

func runs(name string, masters, workers int, at func(*cluster) *sitetest.Machine, lose func(*cluster, *sitetest.Machine) []*sitetest.Machine, moments []moment) (all []making) {
	for _, m := range moments {
		all = append(all, making{name: name + "-" + m.name, masters: masters, workers: workers, at: at, moment: m, lose: lose})
	}
	return all
}

func struck(all []making, change func(*making)) []making {
	for i := range all {
		change(&all[i])
	}
	return all
}

func repeated(times int, m making) (all []making) {
	for i := range times {
		all = append(all, m)
		all[i].name = fmt.Sprintf("%s-%d", m.name, i+1)
	}
	return all
}

func TestPowerCutsWhileAClusterOfOneMasterIsMade(t *testing.T) {
	makeAll(t, "made-under-power-cuts", "machines of a cluster with one master lose their power at named moments, in some runs the controller is killed at each progress too", slices.Concat(
		runs("the-master", 1, 1, maker, itself, ofMakers),
		runs("the-worker", 1, 1, theWorker, itself, ofWorkers),
		runs("all-when-the-master", 1, 1, maker, everyone, ofMakers[6:14:14]),
		struck(runs("the-master", 1, 1, maker, itself, []moment{{"has-an-etcd-that-has-not-begun", "curl --silent --fail --output /dev/null http://127.0.0.1:2381/health", ""}}),
			func(m *making) { m.harm = cutEtcdShort }),
		struck(runs("the-controller-and-the-master", 1, 1, maker, itself, ofMakers[9:12:12]), func(m *making) { m.controller = true }),
	))
}

func TestPowerCutsWhileMastersJoin(t *testing.T) {
	makeAll(t, "joined-under-power-cuts", "masters that join, and the first one meanwhile, lose their power at named moments", slices.Concat(
		runs("a-joining-master", 2, 0, joining, itself, ofJoining),
		runs("the-owner-while-another", 3, 1, joining, theMaker, ofOwners),
	))
}

func TestKillsWhileClustersAreMade(t *testing.T) {
	makeAll(t, "made-under-kills", "agents are killed at each action, the controller at each progress", slices.Concat(
		repeated(4, making{name: "the-controller-at-each-progress", masters: 1, workers: 1, controller: true}),
		repeated(1, making{name: "the-controller-at-each-progress-of-three", masters: 3, workers: 1, controller: true}),
		repeated(3, making{name: "the-agents-at-each-action", masters: 1, workers: 1, agents: true}),
		repeated(1, making{name: "the-agents-at-each-action-of-three", masters: 3, workers: 1, agents: true}),
	))
}

// makeAll makes a cluster for each of the makings.
func makeAll(t *testing.T, name, faults string, makings []making) {
	t.Helper()
	results.LongOnly(t)
	r := results.Begin(t, suite, name, faults+": each time one cluster comes of it, without a half master, without an etcd member that has no Node, and with nothing for a person to do")
	var took []time.Duration
	for _, m := range makings {
		t.Run(m.name, func(t *testing.T) {
			began := time.Now()
			t.Cleanup(func() { took = append(took, time.Since(began)) })
			newCluster(t).make(r, m)
		})
	}
	if len(took) == 0 {
		return // why is said by the runs
	}
	slices.Sort(took)
	r.Figure("clusters made", "%d of %d", len(took), len(makings))
	r.Figure("one of them", "%.0f s (median), %.0f s at most", took[len(took)/2].Seconds(), took[len(took)-1].Seconds())
}

// make makes the cluster of a making, from machines that boot for the first time.
func (w *cluster) make(r *results.Case, m making) {
	w.T.Helper()
	w.Kills.Agents, w.Kills.Controller = m.agents, m.controller
	w.draw(m.masters, m.workers)
	if m.masters > 1 {
		w.share()
	}
	w.ask()
	w.bootThen(w.UserData(), func(ctx context.Context, node lab.Node, _ bool) error { return w.Kills.Watch(ctx, node) }, w.Topology.Servers...)
	flags := []string{"--deadline=8m"} // a cluster takes one or two
	if m.workers == 0 {
		flags = append(flags, "--partial")
	}
	ended := w.Begin(api.Instantiate, flags...)
	if m.at != nil {
		w.cutPower(m)
	}
	w.Completes(ended)
	w.KillsAreOver(r, m.name, 3)
	w.one()
}

// cutPower waits for the moment, and lets the machines boot again. A power cut of a container loses its
// processes, and no write: what a disk loses is the matter of e2e/powercut.
func (w *cluster) cutPower(m making) {
	w.T.Helper()
	at := m.at(w)
	if m.moment.condition != "" {
		at.Await(m.moment.condition+" is True", func(n *api.Node) error {
			if c := n.Status.Condition(m.moment.condition); c == nil || c.Status != api.ConditionTrue {
				return fmt.Errorf("status %+v", n.Status)
			}
			return nil
		})
	} else {
		at.Run("timeout", "300", "sh", "-c", "until "+m.moment.test+"; do sleep 0.02; done >/dev/null 2>&1")
	}
	if m.harm != "" {
		at.Run("python3", "-c", m.harm)
	}
	lose := m.lose(w, at)
	for _, each := range lose {
		if err := each.PowerCut(w.T.Context()); err != nil {
			w.T.Fatal(err)
		}
		w.T.Logf("%s has no power since %s: %s %s", each.Name(), time.Now().Format(time.TimeOnly), at.Name(), m.moment.name)
	}
	var all sync.WaitGroup
	for _, each := range lose {
		all.Go(func() {
			if err := each.Start(w.T.Context()); err != nil {
				w.T.Error(err)
			}
			// The operation may be over before the machine has booted. It may be degraded: then this fails.
			_, _ = each.Try("timeout", "300", "systemctl", "is-system-running", "--wait")
		})
	}
	all.Wait()
}

// The machines of a making.

func theWorker(w *cluster) *sitetest.Machine { return w.Of(workerPoint)[0] }

// maker is the master that makes the cluster.
func maker(w *cluster) *sitetest.Machine {
	if masters := w.Of(masterPoint); len(masters) == 1 {
		return masters[0]
	}
	return w.masterWith(file(etcKube + "super-admin.conf")) // `kubeadm join` makes none
}

// joining is the first of the other masters.
func joining(w *cluster) *sitetest.Machine { return w.masterWith(joinAttempt) }

func (w *cluster) masterWith(test string) (found *sitetest.Machine) {
	w.T.Helper()
	w.Until("there is a master with "+test, func() error {
		for _, m := range w.Of(masterPoint) {
			if _, err := m.Try("sh", "-c", test); err == nil {
				found = m
				return nil
			}
		}
		return fmt.Errorf("no master has it")
	})
	return found
}

func itself(_ *cluster, at *sitetest.Machine) []*sitetest.Machine { return []*sitetest.Machine{at} }

func theMaker(w *cluster, _ *sitetest.Machine) []*sitetest.Machine {
	return []*sitetest.Machine{maker(w)}
}

func everyone(w *cluster, _ *sitetest.Machine) []*sitetest.Machine { return w.Up() }

// one asserts that all machines are one cluster with nothing that is half made, by one operation.
func (w *cluster) one() {
	w.T.Helper()
	w.sound()
	var list api.OperationList
	if err := w.JSON(w.T.Context(), &list, "get", "operations", "--instance", w.ID); err != nil {
		w.T.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].State != api.Completed {
		w.T.Errorf("the operations are %+v, want one that is completed", list.Items)
	}
	authorities, clusters := map[string][]string{}, map[string][]string{}
	for _, m := range w.Up() {
		sum, _, _ := strings.Cut(m.Run("sha256sum", etcKube+"pki/ca.crt"), " ")
		authorities[sum] = append(authorities[sum], m.Name())
	}
	var masters []string
	for _, m := range w.Of(masterPoint) {
		masters = append(masters, m.Name())
		// Its own API server is asked.
		uid := m.Run("kubectl", "--kubeconfig", etcKube+"admin.conf", "--server", "https://"+m.Server.ConnectionPoints[0].Addresses[0]+":6443",
			"get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")
		clusters[uid] = append(clusters[uid], m.Name())
	}
	if len(authorities) != 1 || len(clusters) != 1 {
		w.T.Errorf("machines have the authorities %v, masters the clusters %v, want one of each", authorities, clusters)
	}
	slices.Sort(masters)
	for _, m := range w.Of(masterPoint) {
		var members []string
		for _, member := range w.members(m) {
			if member.IsLearner {
				member.Name += " without a vote"
			}
			members = append(members, member.Name)
		}
		slices.Sort(members)
		if !slices.Equal(members, masters) {
			w.T.Errorf("etcd of %s has the members %q, want the masters %q", m.Name(), members, masters)
		}
	}
	w.secondPasses()
}
