package clusterdepartures

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/shared/api"
)

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// mirrorAnnotation is on the API server's copies of Pods that kubelet runs from a file.
const mirrorAnnotation = "kubernetes.io/config.mirror"

// pod is a Pod.
type pod struct{ *unstructured.Unstructured }

func (p pod) title() string { return "Pod " + p.GetNamespace() + "/" + p.GetName() }

// controller is the kind of what makes the Pod again, "" if nothing does.
func (p pod) controller() string {
	owners := p.GetOwnerReferences()
	i := slices.IndexFunc(owners, func(o metav1.OwnerReference) bool { return o.Controller != nil && *o.Controller })
	if i < 0 {
		return ""
	}
	return owners[i].Kind
}

// stays reports whether the Pod ends with its Node: it belongs to the Node, or has ended.
func (p pod) stays() bool {
	_, mirror := p.GetAnnotations()[mirrorAnnotation]
	phase, _, _ := unstructured.NestedString(p.Object, "status", "phase")
	return mirror || p.controller() == "DaemonSet" || phase == "Succeeded" || phase == "Failed"
}

// ending reports whether the Pod was evicted or deleted.
func (p pod) ending() bool { return p.GetDeletionTimestamp() != nil }

// pods are those that have to leave these Nodes. It fails if nothing would make one of them
// again and the section does not allow it to go.
func (d *departures) pods(ctx context.Context, nodes []kubeapi.Node) (all []pod, err error) {
	var unmanaged []string
	for _, n := range nodes {
		on, err := d.podsOn(ctx, n)
		if err != nil {
			return nil, err
		}
		for _, p := range on {
			if p.controller() == "" && !p.ending() {
				unmanaged = append(unmanaged, p.title()+" on Node "+n.GetName())
			}
		}
		all = append(all, on...)
	}
	if len(unmanaged) > 0 && !d.section.DeleteUnmanagedPods && !d.section.Force {
		return nil, converge.Fail(api.ReasonUnmanagedPods, "no controller would make these again: %s", some(unmanaged))
	}
	return all, nil
}

// podPage bounds the agent's memory on Nodes with many Pods.
const podPage = 100

// podsOn are the Pods that have to leave the Node.
func (d *departures) podsOn(ctx context.Context, n kubeapi.Node) (list []pod, err error) {
	for o := (metav1.ListOptions{Limit: podPage, FieldSelector: "spec.nodeName=" + n.GetName()}); ; {
		page, err := d.Resource(pods).List(ctx, o)
		if err != nil {
			return nil, d.explain(err)
		}
		for i := range page.Items {
			if p := (pod{&page.Items[i]}); !p.stays() {
				list = append(list, p)
			}
		}
		if o.Continue = page.GetContinue(); o.Continue == "" {
			return list, nil
		}
	}
}
