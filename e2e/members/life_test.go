package members

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// operations are a cluster's life, in this order. Each leaves three masters, and as many
// workers as the next one needs.
var operations = []struct {
	name, shows string
	run         func(*world, *results.Case)
}{
	{"join", "three masters and three workers join by their own tokens, and END completes when each Node is Ready", (*world).instantiate},
	{"scale-in", "a worker leaves once a PodDisruptionBudget that forbade it allows it; each Pod is evicted once, the Node is gone", (*world).scaleIn},
	{"heal-master", "a master leaves with its etcd member, and the one in its place joins; etcd keeps its quorum throughout", (*world).healMaster},
	{"heal-owner", "the master that speaks for the cluster leaves in the same way", (*world).healOwner},
	{"scale-out", "a worker that comes later joins, and no other document but the owner's changes", (*world).scaleOut},
	{"give-up", "a START that is cancelled uncordons the worker that was to leave", (*world).giveUp},
	{"only-worker", "the only worker leaves by force alone", (*world).onlyWorker},
	{"dead-worker", "the Node of a worker that died is deleted at END", (*world).deadWorker},
}

// TestLife takes a cluster through every operation: undisturbed, with every agent killed at
// each of its actions, and with the controller killed.
func TestLife(t *testing.T) {
	for _, life := range []struct {
		name, shows string
		kills       kills
	}{
		{name: "undisturbed"},
		{"agents-killed", "every agent killed at each of its actions: ", kills{agents: true}},
		{"controller-killed", "the controller killed whenever a node makes progress: ", kills{controller: true}},
	} {
		t.Run(life.name, func(t *testing.T) {
			if !life.kills.none() && !results.Full() {
				t.Skip("a long case: make e2e runs it")
			}
			w := newWorld(t, life.kills)
			for _, o := range operations {
				name := o.name
				if !life.kills.none() {
					name = life.name + "-" + o.name
				}
				if !t.Run(o.name, func(t *testing.T) {
					r := results.Begin(t, suite, name, life.shows+o.shows)
					before := w.t
					w.t = t
					defer func() { w.t = before }()
					defer w.explain()
					w.kills.again(w)
					o.run(w, r)
					w.joining.Wait()
					w.kills.over(w, r)
					w.sound()
				}) {
					t.Fatalf("%s has left something else to the operations after it", name)
				}
			}
		})
	}
}

// sound asserts what holds after every operation: each machine is a Ready member, no Node is
// left behind, none is cordoned, every Pod was evicted once at most, and the masters' etcd has
// them as its members and nobody else.
func (w *world) sound() {
	w.t.Helper()
	var want []string
	for _, m := range slices.Concat(w.masters(), w.workers()) {
		want = append(want, m.Name())
		w.until(m.Name()+" is Ready", func() error {
			n, err := w.node(w.t.Context(), m)
			if err == nil && (!n.Ready || n.Status.AppliedDigest != n.Digest) {
				err = fmt.Errorf("generation %d, withheld %v, status %+v", n.Generation, n.Withheld, n.Status)
			}
			return err
		})
	}
	slices.Sort(want)
	if got := w.nodes("{.items[*].metadata.name}"); !slices.Equal(got, want) {
		w.t.Errorf("the cluster has the Nodes %v, want %v", got, want)
	}
	if got := w.nodes("{.items[?(@.spec.unschedulable)].metadata.name}"); len(got) > 0 {
		w.t.Errorf("%v are cordoned", got)
	}
	if got := w.etcdNames(); len(got) != len(w.masters()) {
		w.t.Errorf("etcd has the members %v", got)
	}
	counts, err := evictions(w.kube)
	if err != nil {
		w.t.Fatal(err)
	}
	for pod, n := range counts {
		if n > 1 {
			w.t.Errorf("Pod %s was evicted %d times", pod, n)
		}
	}
	w.until("no bootstrap token is left", func() error {
		if left := w.kubectl("get", "secrets", "-n", "kube-system", "--field-selector=type=bootstrap.kubernetes.io/token", "-o", "name"); left != "" {
			return errors.New(left)
		}
		return nil
	})
}

func (w *world) kubectl(args ...string) string {
	w.t.Helper()
	out, err := w.kube.Kubectl(w.t.Context(), args...)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// nodes is a list of the cluster's Nodes, in order.
func (w *world) nodes(jsonpath string) []string {
	w.t.Helper()
	list := strings.Fields(w.kubectl("get", "nodes", "-o", "jsonpath="+jsonpath))
	slices.Sort(list)
	return list
}

func (w *world) instantiate(r *results.Case) {
	if err := w.kube.Apply(w.t.Context(), bootstrapRights); err != nil {
		w.t.Fatal(err)
	}
	for range 3 {
		w.draw(masterPoint, masterAspect)
	}
	for range 3 {
		w.draw(workerPoint, workerAspect)
	}
	w.must("validate", "-f", body, "--package", packageDir)
	w.must("apply", w.id, "-f", body, "--package", packageDir, "--topology", w.file("topology.json", w.topology))
	began := time.Now()
	w.boot(w.topology.Servers...)
	w.operate(api.Instantiate)
	r.Figure("machines powered on to END", "%.1f s", time.Since(began).Seconds())
	// What the members joined with serves nobody any more, and the VIM's access does.
	w.until("the cluster's access is known", func() error {
		out := w.hitchctl(func(string) {}, "get", "cluster-access", w.id, "-o", "kubeconfig")
		if out.code != 0 {
			return errors.New(out.String())
		}
		file := w.file("vim.json", "")
		if err := writeFile(file, out.stdout); err != nil {
			return err
		}
		_, err := w.kube.KubectlAs(w.t.Context(), file, "", "get", "pods", "--all-namespaces")
		return err
	})
}

// bootstrapRights are what kubeadm init gives to machines with a bootstrap token.
const bootstrapRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "kubeadm:kubelet-bootstrap"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:node-bootstrapper"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:bootstrappers:kubeadm:default-node-token"}]
`
