package members

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/e2e/results"
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
func (w *world) budget(least int) {
	w.t.Helper()
	if err := w.kube.Apply(w.t.Context(), fmt.Sprintf(shop, least)); err != nil {
		w.t.Fatal(err)
	}
	w.until("three Pods run, and the budget knows it", func() error {
		healthy := w.kubectl("get", "pdb", "shop", "-o", "jsonpath={.status.currentHealthy}/{.status.desiredHealthy}/{.status.observedGeneration}")
		generation := w.kubectl("get", "pdb", "shop", "-o", "jsonpath={.metadata.generation}")
		if want := fmt.Sprintf("3/%d/%s", least, generation); healthy != want {
			return fmt.Errorf("%s, want %s", healthy, want)
		}
		return nil
	})
}

// podsOn are the Pods on a machine's Node, by their uid.
func (w *world) podsOn(m *machine) []string {
	w.t.Helper()
	list := strings.Fields(w.kubectl("get", "pods", "--field-selector=spec.nodeName="+m.Name(), "-o", "jsonpath={.items[*].metadata.uid}"))
	slices.Sort(list)
	return list
}

// scaleIn: a budget that needs all three Pods forbids to drain a worker; one that needs two
// allows it.
func (w *world) scaleIn(*results.Case) {
	w.budget(3)
	i := slices.IndexFunc(w.workers(), func(m *machine) bool { return len(w.podsOn(m)) > 0 })
	leaves := w.workers()[i]
	before := w.podsOn(leaves)
	done := w.begin(api.Scale, start, "--type=SCALE_IN", "--aspect-id="+workerAspect, "--number-of-steps=1", vnfc(leaves))
	w.blocked(api.ReasonEvictionBlocked)
	if now := w.podsOn(leaves); !slices.Equal(now, before) {
		w.t.Errorf("the budget forbids it, and the Pods of %s are %v instead of %v", leaves.Name(), now, before)
	}
	w.budget(2)
	if s := <-done; s.code != 0 {
		w.t.Fatal(s)
	}
	if left := w.nodes("{.items[*].metadata.name}"); slices.Contains(left, leaves.Name()) {
		w.t.Errorf("START has completed, and the Nodes are %v", left)
	}
	w.destroy(leaves)
	w.operate(api.Scale, "--type=SCALE_IN", "--aspect-id="+workerAspect, "--number-of-steps=1")
	w.budget(2)
}

// blocked waits until the operation in progress says what keeps a member from leaving, and
// returns it.
func (w *world) blocked(reason api.Reason) (o api.Operation) {
	w.t.Helper()
	w.until("a member is kept by "+reason, func() (err error) {
		o, err = w.lastOperation()
		if err == nil && (o.State != api.Processing || len(o.Targets) != 1 || o.Targets[0].Reason != reason) {
			err = fmt.Errorf("the operation is %+v", o)
		}
		return err
	})
	return o
}

func (w *world) lastOperation() (api.Operation, error) {
	var list api.OperationList
	if err := w.JSON(w.t.Context(), &list, "get", "operations", "--instance", w.id); err != nil {
		return api.Operation{}, err
	}
	if len(list.Items) == 0 {
		return api.Operation{}, errors.New("there is no operation")
	}
	return slices.MaxFunc(list.Items, func(a, b api.Operation) int { return int(a.Sequence - b.Sequence) }), nil
}

// owner is the master that speaks for the cluster: its document has the members.
func (w *world) owner() *machine {
	w.t.Helper()
	var owner *machine
	w.until("one master speaks for the cluster", func() error {
		var owners []*machine
		for _, m := range w.masters() {
			n, err := w.node(w.t.Context(), m)
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

func (w *world) healMaster(*results.Case) {
	owner := w.owner()
	i := slices.IndexFunc(w.masters(), func(m *machine) bool { return m != owner })
	w.replace(w.masters()[i])
}

func (w *world) healOwner(*results.Case) { w.replace(w.owner()) }

// replace heals a machine: it leaves, a new server comes in its place and joins.
func (w *world) replace(m *machine, flags ...string) {
	w.t.Helper()
	w.operate(api.Heal, append([]string{start, vnfc(m)}, flags...)...)
	if left := w.nodes("{.items[*].metadata.name}"); slices.Contains(left, m.Name()) {
		w.t.Errorf("START has completed, and the Nodes are %v", left)
	}
	if m.server.ConnectionPoints[0].Name == masterPoint {
		if names := w.etcdNames(m); len(names) != 2 || slices.Contains(names, m.Name()) {
			w.t.Errorf("START has completed, and the etcd members are %v", names)
		}
	}
	w.succeed(m)
}

// succeed destroys a machine, boots a server in its place and ends the heal.
func (w *world) succeed(m *machine) {
	w.t.Helper()
	w.destroy(m)
	s := w.draw(m.server.ConnectionPoints[0].Name, m.server.AspectID)
	w.topology.Servers[len(w.topology.Servers)-1].VnfcInstanceID = m.server.VnfcInstanceID // Tacker keeps it
	s.VnfcInstanceID = m.server.VnfcInstanceID
	done := w.begin(api.Heal, "--vnfc-instance-id="+s.VnfcInstanceID)
	w.boot(s)
	if s := <-done; s.code != 0 {
		w.t.Fatal(s)
	}
}

// scaleOut adds a worker; of those that are there only the owner's document changes.
func (w *world) scaleOut(*results.Case) {
	owner, before := w.owner(), map[*machine]string{}
	for _, m := range slices.Concat(w.masters(), w.workers()) {
		n, err := w.node(w.t.Context(), m)
		if err != nil {
			w.t.Fatal(err)
		}
		before[m] = n.Digest
	}
	s := w.draw(workerPoint, workerAspect)
	w.boot(s)
	w.operate(api.Scale, "--type=SCALE_OUT", "--aspect-id="+workerAspect, "--number-of-steps=1")
	for m, digest := range before {
		n, err := w.node(w.t.Context(), m)
		if err != nil {
			w.t.Fatal(err)
		}
		if changed := n.Digest != digest; changed != (m == owner) {
			w.t.Errorf("the document of %s has changed: %v; the owner is %s", m.Name(), changed, owner.Name())
		}
	}
}

// giveUp: a START that a budget keeps from its end is cancelled.
func (w *world) giveUp(*results.Case) {
	w.budget(3)
	i := slices.IndexFunc(w.workers(), func(m *machine) bool { return len(w.podsOn(m)) > 0 })
	leaves := w.workers()[i]
	done := w.begin(api.Heal, start, vnfc(leaves))
	o := w.blocked(api.ReasonEvictionBlocked)
	w.until("it is cancelled", func() error { // the controller may be killed, and its answer lost
		s := w.hitchctl(func(string) {}, "cancel", "operation", o.ID)
		if now, err := w.lastOperation(); err != nil || now.State != api.Failed {
			return errors.New(s.String())
		}
		return nil
	})
	if s := <-done; s.code != 1 {
		w.t.Errorf("a START that was cancelled: %s", s)
	}
	w.until(leaves.Name()+" takes Pods again", func() error {
		if now := w.nodes("{.items[?(@.spec.unschedulable)].metadata.name}"); len(now) > 0 {
			return fmt.Errorf("%v are cordoned", now)
		}
		return nil
	})
	w.budget(2)
}

// onlyWorker: nobody takes the Pods of the last worker, so it leaves by force or not at all.
func (w *world) onlyWorker(*results.Case) {
	for len(w.workers()) > 1 {
		leaves := w.workers()[0]
		w.operate(api.Scale, start, "--type=SCALE_IN", "--aspect-id="+workerAspect, "--number-of-steps=1", vnfc(leaves))
		w.destroy(leaves)
		w.operate(api.Scale, "--type=SCALE_IN", "--aspect-id="+workerAspect, "--number-of-steps=1")
	}
	only := w.workers()[0]
	if s := <-w.begin(api.Heal, start, vnfc(only)); s.code != 1 || !strings.Contains(s.stderr, "every worker") || !strings.Contains(s.stderr, "--force") {
		w.t.Errorf("a heal of the only worker: %s", s)
	}
	w.replace(only, "--force")
}

// deadWorker: no START comes for a machine that dies by itself.
func (w *world) deadWorker(*results.Case) {
	w.boot(w.draw(workerPoint, workerAspect))
	w.operate(api.Scale, "--type=SCALE_OUT", "--aspect-id="+workerAspect, "--number-of-steps=1")
	w.joining.Wait()
	dead := w.workers()[0]
	// What the node lifecycle controller does when a kubelet is silent.
	w.kubectl("patch", "node", dead.Name(), "--subresource=status", "--type=strategic",
		`--patch={"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}`)
	w.succeed(dead)
	w.until("the Node of "+dead.Name()+" is gone", func() error {
		if now := w.nodes("{.items[*].metadata.name}"); slices.Contains(now, dead.Name()) {
			return fmt.Errorf("the Nodes are %v", now)
		}
		return nil
	})
}

func writeFile(path, content string) error { return os.WriteFile(path, []byte(content), 0o600) }
