package kubernetes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// cgroupV1 lets kubelet 1.35 and later run on a host with control groups of version 1.
const cgroupV1 = `---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
`

// TestUpgrade upgrades a cluster to the next patch version and then to the next minor version, under
// requests to a Service whose Pods have a budget.
func TestUpgrade(t *testing.T) {
	results.LongOnly(t)
	older, present, next := kubetest.Release(t, kube.OlderPatch), presentRelease(t), kubetest.Release(t, kube.NextMinor)
	w := newCluster(t)
	r := results.Begin(t, suite, "upgrade", "three masters and two workers get the next patch version, then the next minor version, first from a package that lacks an image: nothing but the first master is touched until it is mended; a Service whose Pods have a budget answers each request")
	w.write("Files/kubeadm.yaml", kube.ProxyConfiguration+cgroupV1)
	w.packed(r, older)
	w.packed(r, present)
	w.packed(r, next, "kube-apiserver")
	w.wants(older, imageArchive)
	w.draw(3, 2)
	w.share()
	w.bare()
	w.Operate(api.Instantiate)
	w.sound()
	p := w.probe()

	w.wants(present, imageArchive)
	w.ask()
	began := time.Now()
	w.Operate(api.ChangeVnfPkg)
	r.Figure(older.Version+" to "+present.Version, "%.1f s", time.Since(began).Seconds())
	w.upgraded(present)

	w.wants(next, imageArchive)
	w.ask()
	began = time.Now()
	ended := w.Begin(api.ModifyInfo, "--deadline=90m")
	w.lacks("kube-apiserver:" + next.Version)
	r.Figure("posted to the condition that names the image", "%.1f s", time.Since(began).Seconds())
	if o := w.LastOperation(); o.State != api.Processing {
		t.Errorf("an image is missing, and the operation is %s: %+v", o.State, o)
	}
	for _, n := range w.nodes() {
		if n.Version != present.Version || !n.Ready {
			t.Errorf("an image is missing, and there is %+v", n)
		}
	}
	if names := w.voters(); len(names) != 3 {
		t.Errorf("an image is missing, and etcd has the members %q that vote, want three", names)
	}

	w.wants(next, imageArchive, apartArchive)
	w.ask()
	began = time.Now()
	w.Completes(ended)
	r.Figure(present.Version+" to "+next.Version+", from the mended package to COMPLETED", "%.1f s", time.Since(began).Seconds())
	p.over(w, r)
	w.upgraded(next)
	if names := w.voters(); len(names) != 3 {
		t.Errorf("etcd has the members %q that vote, want three", names)
	}
	w.secondPasses()
	for _, m := range w.Up() {
		if left := m.Run("find", "/var/lib/nodehitch/agent/files", "-size", "+1M"); left != "" {
			t.Errorf("%s keeps %s", m.Name(), left)
		}
	}
}

// TestUpgradeThatIsCancelled ends the operation while a worker is drained or upgraded.
func TestUpgradeThatIsCancelled(t *testing.T) {
	results.LongOnly(t)
	w, r, older, present := olderCluster(t, "upgrade-cancelled", "an upgrade is cancelled while the first worker has its turn: no further member is upgraded, none goes back, all are Ready; a repetition completes", 2)
	w.wants(present, imageArchive)
	w.ask()
	ended := w.Begin(api.ChangeVnfPkg)
	w.Until("a worker is cordoned", func() error {
		all, err := w.tryNodes()
		if slices.ContainsFunc(all, func(n clusterNode) bool { return n.Cordoned && strings.HasPrefix(n.Name, "worker") }) {
			return nil
		}
		return fmt.Errorf("there are %+v: %w", all, err)
	})
	w.Must("cancel", "operation", w.LastOperation().ID)
	<-ended
	if o := w.LastOperation(); o.State != api.Failed || o.Error == nil || o.Error.Type != api.ProblemCancelled {
		t.Errorf("cancelled, and the operation is %+v", o)
	}
	w.Until("no Node is cordoned, and all are Ready", func() error {
		all, err := w.tryNodes()
		if err == nil && slices.ContainsFunc(all, func(n clusterNode) bool { return n.Cordoned || !n.Ready }) {
			err = fmt.Errorf("there are %+v", all)
		}
		return err
	})
	w.sound()
	counts := map[string]int{}
	for _, n := range w.nodes() {
		counts[n.Version]++
	}
	r.Figure("members after it was cancelled", "%d at %s, %d at %s", counts[present.Version], present.Version, counts[older.Version], older.Version)
	if counts[older.Version] == 0 || counts[older.Version] > 2 || counts[older.Version]+counts[present.Version] != 3 {
		t.Errorf("cancelled while the first worker had its turn, and there are %+v", w.nodes())
	}
	w.Operate(api.ChangeVnfPkg)
	w.upgraded(present)
}

// TestUpgradeWhoseAgentsAreKilled ends each agent at the begin and the end of each action of an
// upgrade.
func TestUpgradeWhoseAgentsAreKilled(t *testing.T) {
	results.LongOnly(t)
	w, r, older, present := olderCluster(t, "upgrade-killed", "a master and a worker get the next patch version, with each agent killed at the begin and the end of each action", 1)
	w.wants(present, imageArchive)
	w.ask()
	w.Kills.Agents = true
	began := time.Now()
	w.Operate(api.ChangeVnfPkg)
	r.Figure(older.Version+" to "+present.Version, "%.1f s", time.Since(began).Seconds())
	w.upgraded(present)
	w.answers()
	w.KillsAreOver(r, "agents killed", 10)
}

// olderCluster is a cluster of a master and workers of the older patch version, whose package has
// the present version too.
func olderCluster(t *testing.T, name, shows string, workers int) (w *cluster, r *results.Case, older, present *kube.Release) {
	t.Helper()
	older, present = kubetest.Release(t, kube.OlderPatch), presentRelease(t)
	w = newCluster(t)
	r = results.Begin(t, suite, name, shows)
	w.packed(r, older)
	w.packed(r, present)
	w.wants(older, imageArchive)
	w.draw(1, workers)
	w.bare()
	w.Operate(api.Instantiate)
	w.sound()
	w.answers()
	return w, r, older, present
}

// lacks waits until a machine, and no other, says that it lacks an image.
func (w *cluster) lacks(image string) {
	w.T.Helper()
	w.Until("one machine lacks the image "+image, func() error {
		var said []string
		for _, m := range w.Up() {
			n, err := m.AsKnown()
			if err != nil {
				return err
			}
			for _, c := range n.Status.Conditions {
				if c.Reason == api.ReasonImageUnavailable && strings.Contains(c.Message, image) {
					said = append(said, m.Name()+": "+c.Message)
				}
			}
		}
		if len(said) != 1 {
			return fmt.Errorf("it is said by %q", said)
		}
		w.T.Log(said[0])
		return nil
	})
}

// clusterNode is a Node as the cluster has it.
type clusterNode struct {
	Name, Version   string
	Ready, Cordoned bool
}

func (w *cluster) nodes() []clusterNode {
	w.T.Helper()
	all, err := w.tryNodes()
	if err != nil {
		w.T.Fatal(err)
	}
	return all
}

// tryNodes fails while the first master's API server starts again.
func (w *cluster) tryNodes() (all []clusterNode, err error) {
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct{ Unschedulable bool }
			Status   struct {
				NodeInfo   struct{ KubeletVersion string }
				Conditions []struct{ Type, Status string }
			}
		}
	}
	out, err := w.tryKubectl("get", "nodes", "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &list)
	}
	for _, item := range list.Items {
		n := clusterNode{Name: item.Metadata.Name, Version: item.Status.NodeInfo.KubeletVersion, Cordoned: item.Spec.Unschedulable}
		for _, c := range item.Status.Conditions {
			n.Ready = n.Ready || c.Type == "Ready" && c.Status == "True"
		}
		all = append(all, n)
	}
	return all, err
}

// upgraded asserts that each member has a version and can be used, that all which kubeadm keeps in the
// cluster has it, and that one master has etcd's data of before.
func (w *cluster) upgraded(release *kube.Release) {
	w.T.Helper()
	w.sound()
	for _, n := range w.nodes() {
		if n.Version != release.Version || !n.Ready || n.Cordoned {
			w.T.Errorf("there is %+v, want %s, Ready and not cordoned", n, release.Version)
		}
	}
	images := strings.Fields(w.kubectl("get", "pods", "--namespace=kube-system", "-o", "jsonpath={.items[*].spec.containers[*].image}"))
	for _, program := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
		count, want := 0, len(w.Of(masterPoint))
		if program == "kube-proxy" {
			want = len(w.Up())
		}
		for _, image := range images {
			if strings.HasSuffix(image, "/"+program+":"+release.Version) {
				count++
			}
		}
		if count != want {
			w.T.Errorf("%d Pods run %s %s, want %d: %q", count, program, release.Version, want, images)
		}
	}
	if config := w.kubectl("get", "configmap", "kubeadm-config", "--namespace=kube-system", "-o", "jsonpath={.data.ClusterConfiguration}"); !strings.Contains(config, "kubernetesVersion: "+release.Version) {
		w.T.Errorf("kubeadm-config is not of %s:\n%s", release.Version, config)
	}
	var snapshots []string
	for _, m := range w.Of(masterPoint) {
		snapshots = append(snapshots, strings.Fields(m.Run("find", "/var/lib/nodehitch", "-name", "etcd-before-*.db", "-perm", "0600", "-size", "+1M"))...)
	}
	if want := "/etcd-before-" + strings.TrimPrefix(release.Version, "v") + ".db"; len(snapshots) != 1 || !strings.HasSuffix(snapshots[0], want) {
		w.T.Errorf("the masters have the snapshots %q, want one %s", snapshots, want)
	}
}
