package clusterdepartures

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/shared/api"
)

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// mirrorAnnotation is on the API server's copies of Pods that kubelet runs from a file.
const mirrorAnnotation = "kubernetes.io/config.mirror"

// pod is what the agent keeps of a Pod that has to leave its Node.
type pod struct {
	namespace, name, node string
	uid                   types.UID
	// controller is the kind of what makes the Pod again, "" if nothing does.
	controller string
	// end is when the Pod was evicted or deleted, and its grace after that; zero if it was not.
	end time.Time
}

func (p pod) title() string { return "Pod " + p.namespace + "/" + p.name }

func (p pod) ending() bool { return !p.end.IsZero() }

func podOf(u *unstructured.Unstructured, n kubeapi.Node) pod {
	p := pod{namespace: u.GetNamespace(), name: u.GetName(), node: n.GetName(), uid: u.GetUID(), controller: controllerOf(u)}
	if end := u.GetDeletionTimestamp(); end != nil {
		p.end = end.Time
	}
	return p
}

func controllerOf(u *unstructured.Unstructured) string {
	owners := u.GetOwnerReferences()
	i := slices.IndexFunc(owners, func(o metav1.OwnerReference) bool { return o.Controller != nil && *o.Controller })
	if i < 0 {
		return ""
	}
	return owners[i].Kind
}

// stays reports whether the Pod ends with its Node: it belongs to the Node, or has ended.
func stays(u *unstructured.Unstructured) bool {
	_, mirror := u.GetAnnotations()[mirrorAnnotation]
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	return mirror || controllerOf(u) == "DaemonSet" || phase == "Succeeded" || phase == "Failed"
}

// pods are those that have to leave these Nodes. It fails if nothing would make one of them
// again and the section does not allow it to go.
func (d *drainage) pods(ctx context.Context, nodes []kubeapi.Node) (all []pod, err error) {
	var unmanaged []string
	for _, n := range nodes {
		on, err := d.podsOn(ctx, n)
		if err != nil {
			return nil, err
		}
		for _, p := range on {
			if p.controller == "" && !p.ending() {
				unmanaged = append(unmanaged, p.title()+" on Node "+n.GetName())
			}
		}
		all = append(all, on...)
	}
	if len(unmanaged) > 0 && !d.deleteUnmanaged && !d.force {
		return nil, converge.Wait(api.ReasonUnmanagedPods, "no controller would make these again: %s", some(unmanaged))
	}
	return all, nil
}

// podPage bounds the agent's memory on Nodes with many Pods.
const podPage = 100

// podsOn are the Pods that have to leave the Node. On a Node that is not Ready no kubelet may
// be left to say that a Pod has ended: after its grace it counts as ended, and is deleted with
// the Node.
func (d *drainage) podsOn(ctx context.Context, n kubeapi.Node) (list []pod, err error) {
	ready, _ := n.Ready()
	for o := (metav1.ListOptions{Limit: podPage, FieldSelector: "spec.nodeName=" + n.GetName()}); ; {
		page, err := d.Resource(pods).List(ctx, o)
		if err != nil {
			return nil, d.Explain(err)
		}
		for i := range page.Items {
			p := podOf(&page.Items[i], n)
			if !stays(&page.Items[i]) && (ready || !p.ending() || d.now().Before(p.end)) {
				list = append(list, p)
			}
		}
		if o.Continue = page.GetContinue(); o.Continue == "" {
			return list, nil
		}
	}
}
