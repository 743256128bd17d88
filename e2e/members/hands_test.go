package members

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/nodehitch/nodehitch/e2e/kube"
)

var (
	podsResource  = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	nodesResource = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
)

const namespace = "default"

// hands stand in for the scheduler and for what kubelets do with Pods: they place Pods on
// Ready Nodes that take them, say that they run, and end those that are deleted.
type hands struct {
	pods, nodes dynamic.ResourceInterface

	mu    sync.Mutex
	alive map[string]bool // Nodes whose kubelet runs
}

func newHands(t *testing.T, c *kube.Cluster) *hands {
	t.Helper()
	client, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	h := &hands{pods: client.Resource(podsResource).Namespace(namespace), nodes: client.Resource(nodesResource), alive: map[string]bool{}}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { h.run(ctx, t) })
	t.Cleanup(running.Wait)
	t.Cleanup(stop)
	return h
}

// up and gone say that the kubelet of a Node runs, and that it runs no more.
func (h *hands) up(node string)   { h.set(node, true) }
func (h *hands) gone(node string) { h.set(node, false) }

func (h *hands) set(node string, alive bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alive[node] = alive
}

func (h *hands) run(ctx context.Context, t *testing.T) {
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := h.turn(ctx); err != nil && ctx.Err() == nil && !passing(err) {
			t.Errorf("the stand-in for scheduler and kubelets: %v", err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// passing reports whether the next turn sees what has happened meanwhile.
func passing(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

func (h *hands) turn(ctx context.Context) error {
	pods, err := h.pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	load, err := h.load(ctx)
	if err != nil {
		return err
	}
	for _, p := range pods.Items {
		node, _, _ := unstructured.NestedString(p.Object, "spec", "nodeName")
		if _, takes := load[node]; takes {
			load[node]++
		}
	}
	var errs []error
	for i := range pods.Items {
		errs = append(errs, h.mind(ctx, &pods.Items[i], load))
	}
	return errors.Join(errs...)
}

// load has the Nodes that take Pods.
func (h *hands) load(ctx context.Context) (map[string]int, error) {
	nodes, err := h.nodes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	load := map[string]int{}
	for _, n := range nodes.Items {
		cordoned, _, _ := unstructured.NestedBool(n.Object, "spec", "unschedulable")
		if h.alive[n.GetName()] && !cordoned {
			load[n.GetName()] = 0
		}
	}
	return load, nil
}

func (h *hands) mind(ctx context.Context, p *unstructured.Unstructured, load map[string]int) error {
	node, _, _ := unstructured.NestedString(p.Object, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(p.Object, "status", "phase")
	h.mu.Lock()
	alive := h.alive[node]
	h.mu.Unlock()
	switch {
	case node == "" && p.GetDeletionTimestamp() == nil && len(load) > 0:
		return h.place(ctx, p, load)
	case alive && p.GetDeletionTimestamp() != nil:
		now, uid := int64(0), p.GetUID()
		return h.pods.Delete(ctx, p.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &uid}})
	case alive && phase != "Running":
		const running = `{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`
		_, err := h.pods.Patch(ctx, p.GetName(), types.MergePatchType, []byte(running), metav1.PatchOptions{}, "status")
		return err
	}
	return nil
}

// place binds a Pod to the worker with the fewest; masters have a taint that Pods of the
// tests do not tolerate, as kubeadm makes it.
func (h *hands) place(ctx context.Context, p *unstructured.Unstructured, load map[string]int) error {
	names := slices.SortedFunc(maps.Keys(load), func(a, b string) int { return load[a] - load[b] })
	i := slices.IndexFunc(names, func(name string) bool { return name[:len("worker")] == "worker" })
	if i < 0 {
		return nil
	}
	load[names[i]]++
	_, err := h.pods.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Binding", "metadata": map[string]any{"name": p.GetName(), "namespace": namespace},
		"target": map[string]any{"apiVersion": "v1", "kind": "Node", "name": names[i]},
	}}, metav1.CreateOptions{}, "binding")
	return err
}

// evictions counts, by Pod, the evictions that the API server has accepted.
func evictions(c *kube.Cluster) (map[string]int, error) {
	file, err := os.Open(c.AuditLog())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	counts := map[string]int{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var e struct {
			ObjectRef      struct{ Name, Subresource string }
			ResponseStatus struct{ Code int }
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, err
		}
		if e.ObjectRef.Subresource == "eviction" && e.ResponseStatus.Code/100 == 2 {
			counts[e.ObjectRef.Name]++
		}
	}
	return counts, nil
}
