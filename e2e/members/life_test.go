package members

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// operations are a cluster's life, in this order. Each leaves three masters, and as many
// workers as the next one needs.
var operations = []struct {
	name, shows string
	run         func(*cluster, *results.Case)
}{
	{"join", "three masters and three workers join by their own tokens, and END completes when each Node is Ready", (*cluster).instantiate},
	{"scale-in", "a worker leaves once a PodDisruptionBudget that forbade it allows it; each Pod is evicted once, the Node is gone", (*cluster).scaleIn},
	{"heal-master", "a master leaves with its etcd member, and the one in its place joins; etcd keeps its quorum throughout", (*cluster).healMaster},
	{"heal-owner", "the master that speaks for the cluster leaves in the same way", (*cluster).healOwner},
	{"scale-out", "a worker that comes later joins, and no other document but the owner's changes", (*cluster).scaleOut},
	{"give-up", "a START that is cancelled uncordons the worker that was to leave", (*cluster).giveUp},
	{"only-worker", "the only worker leaves by force alone", (*cluster).onlyWorker},
	{"dead-worker", "the Node of a worker that died is deleted at END", (*cluster).deadWorker},
}

// TestLife takes a cluster through every operation: undisturbed, with every agent killed at
// each of its actions, and with the controller killed.
func TestLife(t *testing.T) {
	for _, life := range []struct {
		name, shows        string
		agents, controller bool // are killed
	}{
		{name: "undisturbed"},
		{"agents-killed", "every agent killed at each of its actions: ", true, false},
		{"controller-killed", "the controller killed whenever a node makes progress: ", false, true},
	} {
		t.Run(life.name, func(t *testing.T) {
			kills := life.agents || life.controller
			if kills && !results.Full() {
				t.Skip("a long case: make e2e runs it")
			}
			w := newCluster(t, life.agents, life.controller)
			for _, o := range operations {
				name := o.name
				if kills {
					name = life.name + "-" + o.name
				}
				if !t.Run(o.name, func(t *testing.T) {
					r := results.Begin(t, suite, name, life.shows+o.shows)
					defer w.During(t)()
					defer w.Explain()
					o.run(w, r)
					w.joining.Wait()
					w.KillsAreOver(r, "killed", 1)
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
func (w *cluster) sound() {
	w.T.Helper()
	var want []string
	for _, m := range slices.Concat(w.masters(), w.workers()) {
		want = append(want, m.Name())
		m.Ready()
	}
	slices.Sort(want)
	if got := w.nodes("{.items[*].metadata.name}"); !slices.Equal(got, want) {
		w.T.Errorf("the cluster has the Nodes %v, want %v", got, want)
	}
	if got := w.nodes("{.items[?(@.spec.unschedulable)].metadata.name}"); len(got) > 0 {
		w.T.Errorf("%v are cordoned", got)
	}
	if got := w.etcdNames(); len(got) != len(w.masters()) {
		w.T.Errorf("etcd has the members %v", got)
	}
	counts, err := evictions(w.kube)
	if err != nil {
		w.T.Fatal(err)
	}
	for pod, n := range counts {
		if n > 1 {
			w.T.Errorf("Pod %s was evicted %d times", pod, n)
		}
	}
	w.Until("no bootstrap token is left", func() error {
		if left := w.kubectl("get", "secrets", "-n", "kube-system", "--field-selector=type=bootstrap.kubernetes.io/token", "-o", "name"); left != "" {
			return errors.New(left)
		}
		return nil
	})
}

func (w *cluster) kubectl(args ...string) string {
	w.T.Helper()
	return kubetest.Kubectl(w.T, w.kube, args...)
}

// nodes is a list of the cluster's Nodes, in order.
func (w *cluster) nodes(jsonpath string) []string {
	w.T.Helper()
	list := strings.Fields(w.kubectl("get", "nodes", "-o", "jsonpath="+jsonpath))
	slices.Sort(list)
	return list
}

func (w *cluster) instantiate(r *results.Case) {
	if err := w.kube.Apply(w.T.Context(), bootstrapRights); err != nil {
		w.T.Fatal(err)
	}
	for range 3 {
		w.master()
	}
	for range 3 {
		w.worker()
	}
	w.Apply(body, packageDir)
	began := time.Now()
	w.boot(w.Topology.Servers...)
	w.Operate(api.Instantiate)
	r.Figure("machines powered on to END", "%.1f s", time.Since(began).Seconds())
	// What the members joined with serves nobody any more, and the VIM's access does.
	w.Until("the cluster's access is known", func() error {
		out := w.CLI("get", "cluster-access", w.ID, "-o", "kubeconfig")
		if out.Code != 0 {
			return errors.New(out.String())
		}
		file := w.File("vim.json", "")
		if err := os.WriteFile(file, []byte(out.Stdout), 0o600); err != nil {
			return err
		}
		_, err := w.kube.KubectlAs(w.T.Context(), file, "", "get", "pods", "--all-namespaces")
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
