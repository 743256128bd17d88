package kubernetes

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The pages that are walked.
const (
	quorumPage  = "../../docs/quorum-lost.md"
	restorePage = "../../docs/etcd-restore.md"
)

// TestQuorumLost walks docs/quorum-lost.md: two of three masters are gone for good.
func TestQuorumLost(t *testing.T) {
	results.LongOnly(t)
	w := newCluster(t)
	r := results.Begin(t, suite, "quorum-lost", "two of three masters are gone for good: with the steps of docs/quorum-lost.md the third one has the cluster with all its objects, and the others are healed")
	w.draw(3, 1)
	shared := w.share()
	w.ask()
	w.boot(w.Topology.Servers...)
	w.Operate(api.Instantiate)
	w.sound()
	w.answers()

	left, gone := w.Of(masterPoint)[0], w.Of(masterPoint)[1:]
	w.Destroy(gone...)
	left.Says(api.ConditionControlPlaneHealthy, api.ReasonQuorumLost)
	steps := commands(t, quorumPage, "/root/etcd-recovery")
	for _, command := range slices.Concat(commands(t, quorumPage, "proposals_applied"), steps[:2]) {
		left.Run("sh", "-euc", command) // the steps are done again, as if the second one had failed
	}
	began := time.Now()
	for _, step := range steps {
		left.Run("sh", "-euc", step)
	}
	r.Figure("first step of the page to an API that answers", "%.1f s", time.Since(began).Seconds())
	if names := w.voters(); !slices.Equal(names, []string{left.Name()}) {
		t.Errorf("etcd has the members %q that vote, want %s alone", names, left.Name())
	}
	w.answersAt(shared)

	w.Operate(api.Heal, sitetest.PhaseStart, sitetest.VNFC(gone[0].Server), sitetest.VNFC(gone[1].Server))
	next := []api.Server{w.Redraw(gone[0].Server), w.Redraw(gone[1].Server)}
	began = time.Now()
	w.boot(next...)
	w.Operate(api.Heal, sitetest.VNFC(next[0]), sitetest.VNFC(next[1]))
	r.Figure("two new masters powered on to END", "%.1f s", time.Since(began).Seconds())
	w.sound()
	w.holder(shared)
	if names := w.voters(); len(names) != 3 {
		t.Errorf("etcd has the members %q that vote, want three", names)
	}
	if got := w.kubectl("get", "deployment", "web", "-o", "jsonpath={.status.availableReplicas}"); got != "3" {
		t.Errorf("of the Deployment of before, %q replicas are available", got)
	}
}

// TestEtcdRestored walks docs/etcd-restore.md on three masters, twice, as one does whose first
// attempt had a mistake.
func TestEtcdRestored(t *testing.T) {
	results.LongOnly(t)
	program, err := os.ReadFile(kubetest.Etcdutl(t))
	if err != nil {
		t.Fatal(err)
	}
	w := newCluster(t)
	r := results.Begin(t, suite, "etcd-restored", "with the steps of docs/etcd-restore.md, done twice, three masters have the objects of a snapshot of etcd and none of later; a worker that the snapshot does not have is a Node again")
	w.draw(3, 1)
	w.share()
	w.ask()
	w.boot(w.Topology.Servers...)
	w.Operate(api.Instantiate)
	w.sound()
	w.answers()

	masters, worker := w.Of(masterPoint), w.Of(workerPoint)[0]
	w.kubectl("delete", "node", worker.Name())
	snapshot := w.snapshot()
	w.registers(worker)
	w.sound()
	w.kubectl("create", "namespace", "later")

	steps := append(commands(t, restorePage, "/root/etcd-restore"), commands(t, restorePage, "start nodehitch-agent")...)
	const list = 1 // the step whose first line has all masters, before which files are copied
	_, rest, _ := strings.Cut(steps[list], "\n")
	steps[list] = "masters=" + strings.Join(w.peers(), ",") + "\n" + rest
	began := time.Now()
	for range 2 {
		for i, step := range steps {
			for _, m := range masters {
				if i == list {
					err := errors.Join(m.Push(t.Context(), "/root/etcd-restore/snapshot.db", 0o600, snapshot), m.Push(t.Context(), "/root/etcd-restore/etcdutl", 0o755, program))
					if err != nil {
						t.Fatal(err)
					}
				}
				m.Run("sh", "-euc", step)
			}
		}
	}
	r.Figure("the page twice, first step to an API that answers on each master", "%.1f s", time.Since(began).Seconds())
	if got := w.kubectl("get", "nodes", "-o", "name"); strings.Contains(got, worker.Name()) {
		t.Errorf("the API has the Nodes %q, among them one that the snapshot does not have", got)
	}
	w.registers(worker)
	w.sound()
	if names := w.voters(); len(names) != 3 {
		t.Errorf("etcd has the members %q that vote, want three", names)
	}
	if got := w.kubectl("get", "namespaces", "-o", "name"); strings.Contains(got, "later") {
		t.Errorf("the namespace that is younger than the snapshot is among %q", got)
	}
	w.answers()
}

// registers restarts the machine's kubelet, which makes its Node, and waits until that is Ready.
func (w *cluster) registers(m *sitetest.Machine) {
	w.T.Helper()
	m.Run("systemctl", "restart", "kubelet")
	w.Until(m.Name()+" has a Node that is Ready", func() error {
		_, err := w.tryKubectl("wait", "--for=condition=Ready", "--timeout=0", "node/"+m.Name())
		return err
	})
}

// snapshot is one of etcd's own, as an agent writes it before an upgrade.
func (w *cluster) snapshot() (content []byte) {
	w.T.Helper()
	said := json.NewDecoder(strings.NewReader(w.etcd(w.Of(masterPoint)[0], "/v3/maintenance/snapshot")))
	for {
		var part struct{ Result struct{ Blob []byte } }
		switch err := said.Decode(&part); {
		case errors.Is(err, io.EOF):
			return content
		case err != nil:
			w.T.Fatal(err)
		}
		content = append(content, part.Result.Blob...)
	}
}

// peers are the masters as members of etcd, as its flag --initial-cluster has them.
func (w *cluster) peers() (list []string) {
	for _, m := range w.Of(masterPoint) {
		list = append(list, m.Name()+"=https://"+m.Server.ConnectionPoints[0].Addresses[0]+":2380")
	}
	return list
}

// commands are the blocks of commands of a page that have this word, each one a text for a shell.
func commands(t *testing.T, page, word string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var block strings.Builder
	for line := range strings.Lines(string(text) + "\nend\n") {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			block.WriteString(command)
			continue
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		if strings.Contains(block.String(), word) {
			blocks = append(blocks, block.String())
		}
		block.Reset()
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no commands with %s", page, word)
	}
	return blocks
}
