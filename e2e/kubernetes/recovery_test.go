package kubernetes

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
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
	began := time.Now()
	for _, step := range commands(t, "../../docs/quorum-lost.md", "/root/etcd-recovery") {
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

// commands are the blocks of commands of a page that have this word, each one a text for a shell.
func commands(t *testing.T, page, word string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var block strings.Builder
	for line := range strings.Lines(string(text) + "\nend\n") {
		if command, ok := strings.CutPrefix(line, "       "); ok {
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
