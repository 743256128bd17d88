package members

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// shop is Pods of which budget are to run at any time.
const shop = `
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {automountServiceAccountToken: false, containers: [{name: shop, image: "registry.example/shop"}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: shop}
spec: {minAvailable: %d, selector: {matchLabels: {app: shop}}}
`

// budget makes the Pods, and asks for so many of them at any time.
func (w *cluster) budget(least int) {
	w.T.Helper()
	if err := w.kube.Apply(w.T.Context(), fmt.Sprintf(shop, least)); err != nil {
		w.T.Fatal(err)
	}
	w.Until("three Pods run, and the budget knows it", func() error {
		healthy := w.kubectl("get", "pdb", "shop", "-o", "jsonpath={.status.currentHealthy}/{.status.desiredHealthy}/{.status.observedGeneration}")
		generation := w.kubectl("get", "pdb", "shop", "-o", "jsonpath={.metadata.generation}")
		if want := fmt.Sprintf("3/%d/%s", least, generation); healthy != want {
			return fmt.Errorf("%s, want %s", healthy, want)
		}
		return nil
	})
}

// podsOn are the Pods on a machine's Node, by their uid.
func (w *cluster) podsOn(m *sitetest.Machine) []string {
	w.T.Helper()
	list := strings.Fields(w.kubectl("get", "pods", "--field-selector=spec.nodeName="+m.Name(), "-o", "jsonpath={.items[*].metadata.uid}"))
	slices.Sort(list)
	return list
}

// scaleIn: a budget that needs all three Pods forbids to drain a worker; one that needs two
// allows it.
func (w *cluster) scaleIn(*results.Case) {
	w.budget(3)
	i := slices.IndexFunc(w.workers(), func(m *sitetest.Machine) bool { return len(w.podsOn(m)) > 0 })
	leaves := w.workers()[i]
	before := w.podsOn(leaves)
	done := w.Begin(api.Scale, sitetest.PhaseStart, "--type=SCALE_IN", "--aspect-id="+workerAspect, sitetest.ByOne, sitetest.VNFC(leaves.Server))
	w.blocked(api.ReasonEvictionBlocked)
	if now := w.podsOn(leaves); !slices.Equal(now, before) {
		w.T.Errorf("the budget forbids it, and the Pods of %s are %v instead of %v", leaves.Name(), now, before)
	}
	w.budget(2)
	w.Completes(done)
	if left := w.nodes("{.items[*].metadata.name}"); slices.Contains(left, leaves.Name()) {
		w.T.Errorf("START has completed, and the Nodes are %v", left)
	}
	w.gone(leaves)
	w.Operate(api.Scale, "--type=SCALE_IN", "--aspect-id="+workerAspect, sitetest.ByOne)
	w.budget(2)
}

// blocked waits until the operation in progress says what keeps a member from leaving, and
// returns it.
func (w *cluster) blocked(reason api.Reason) (o api.Operation) {
	w.T.Helper()
	w.Until("a member is kept by "+reason, func() error {
		o = w.LastOperation()
		if o.State != api.Processing || len(o.Targets) != 1 || o.Targets[0].Reason != reason {
			return fmt.Errorf("the operation is %+v", o)
		}
		return nil
	})
	return o
}

// owner is the master that speaks for the cluster: its document has the members.
func (w *cluster) owner() *sitetest.Machine {
	w.T.Helper()
	var owner *sitetest.Machine
	w.Until("one master speaks for the cluster", func() error {
		var owners []*sitetest.Machine
		for _, m := range w.masters() {
			n, err := m.AsKnown()
			if err != nil {
				return err
			}
			if n.Status.Condition(api.ConditionClusterMembersCurrent) != nil {
				owners = append(owners, m)
			}
		}
		if len(owners) != 1 {
			return fmt.Errorf("%d do", len(owners))
		}
		owner = owners[0]
		return nil
	})
	return owner
}

func (w *cluster) healMaster(*results.Case) {
	owner := w.owner()
	i := slices.IndexFunc(w.masters(), func(m *sitetest.Machine) bool { return m != owner })
	w.replace(w.masters()[i])
}

func (w *cluster) healOwner(*results.Case) { w.replace(w.owner()) }

// replace heals a machine: it leaves, a new server comes in its place and joins.
func (w *cluster) replace(m *sitetest.Machine, flags ...string) {
	w.T.Helper()
	w.Operate(api.Heal, append([]string{sitetest.PhaseStart, sitetest.VNFC(m.Server)}, flags...)...)
	if left := w.nodes("{.items[*].metadata.name}"); slices.Contains(left, m.Name()) {
		w.T.Errorf("START has completed, and the Nodes are %v", left)
	}
	if m.Server.ConnectionPoints[0].Name == masterPoint {
		if names := w.etcdNames(m); len(names) != 2 || slices.Contains(names, m.Name()) {
			w.T.Errorf("START has completed, and the etcd members are %v", names)
		}
	}
	w.succeed(m)
}

// succeed destroys a machine, boots a server in its place and ends the heal.
func (w *cluster) succeed(m *sitetest.Machine) {
	w.T.Helper()
	w.gone(m)
	s := w.Redraw(m.Server)
	done := w.Begin(api.Heal, sitetest.VNFC(s))
	w.boot(s)
	w.Completes(done)
}

// scaleOut adds a worker; of those that are there only the owner's document changes.
func (w *cluster) scaleOut(*results.Case) {
	owner, before := w.owner(), map[*sitetest.Machine]string{}
	for _, m := range slices.Concat(w.masters(), w.workers()) {
		n, err := m.AsKnown()
		if err != nil {
			w.T.Fatal(err)
		}
		before[m] = n.Digest
	}
	w.boot(w.worker())
	w.Operate(api.Scale, "--type=SCALE_OUT", "--aspect-id="+workerAspect, sitetest.ByOne)
	for m, digest := range before {
		n, err := m.AsKnown()
		if err != nil {
			w.T.Fatal(err)
		}
		if changed := n.Digest != digest; changed != (m == owner) {
			w.T.Errorf("the document of %s has changed: %v; the owner is %s", m.Name(), changed, owner.Name())
		}
	}
}

// giveUp: a START that a budget keeps from its end is cancelled.
func (w *cluster) giveUp(*results.Case) {
	w.budget(3)
	i := slices.IndexFunc(w.workers(), func(m *sitetest.Machine) bool { return len(w.podsOn(m)) > 0 })
	leaves := w.workers()[i]
	done := w.Begin(api.Heal, sitetest.PhaseStart, sitetest.VNFC(leaves.Server))
	o := w.blocked(api.ReasonEvictionBlocked)
	w.Until("it is cancelled", func() error { // the controller may be killed, and its answer lost
		s := w.CLI("cancel", "operation", o.ID)
		if now := w.LastOperation(); now.State != api.Failed {
			return errors.New(s.String())
		}
		return nil
	})
	if s := <-done; s.Code != 1 {
		w.T.Errorf("a START that was cancelled: %s", s)
	}
	w.Until(leaves.Name()+" takes Pods again", func() error {
		if now := w.nodes("{.items[?(@.spec.unschedulable)].metadata.name}"); len(now) > 0 {
			return fmt.Errorf("%v are cordoned", now)
		}
		return nil
	})
	w.budget(2)
}

// onlyWorker: nobody takes the Pods of the last worker, so it leaves by force or not at all.
func (w *cluster) onlyWorker(*results.Case) {
	for len(w.workers()) > 1 {
		leaves := w.workers()[0]
		w.Operate(api.Scale, sitetest.PhaseStart, "--type=SCALE_IN", "--aspect-id="+workerAspect, sitetest.ByOne, sitetest.VNFC(leaves.Server))
		w.gone(leaves)
		w.Operate(api.Scale, "--type=SCALE_IN", "--aspect-id="+workerAspect, sitetest.ByOne)
	}
	only := w.workers()[0]
	if s := <-w.Begin(api.Heal, sitetest.PhaseStart, sitetest.VNFC(only.Server)); s.Code != 1 || !strings.Contains(s.Stderr, "every worker") || !strings.Contains(s.Stderr, "--force") {
		w.T.Errorf("a heal of the only worker: %s", s)
	}
	w.replace(only, "--force")
}

// deadWorker: no START comes for a machine that dies by itself.
func (w *cluster) deadWorker(*results.Case) {
	w.boot(w.worker())
	w.Operate(api.Scale, "--type=SCALE_OUT", "--aspect-id="+workerAspect, sitetest.ByOne)
	w.joining.Wait()
	dead := w.workers()[0]
	// What the node lifecycle controller does when a kubelet is silent.
	w.kubectl("patch", "node", dead.Name(), "--subresource=status", "--type=strategic",
		`--patch={"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}`)
	w.succeed(dead)
	w.Until("the Node of "+dead.Name()+" is gone", func() error {
		if now := w.nodes("{.items[*].metadata.name}"); slices.Contains(now, dead.Name()) {
			return fmt.Errorf("the Nodes are %v", now)
		}
		return nil
	})
}
