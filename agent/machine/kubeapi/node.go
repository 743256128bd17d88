package kubeapi

import (
	"context"
	"encoding/json"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Nodes is the resource of Nodes.
var Nodes = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}

// ServerIDAnnotation is on the Node of each member; its value is the member's server id.
const ServerIDAnnotation = "nodehitch.io/server-id"

// Node is a Node of the cluster.
type Node struct{ *unstructured.Unstructured }

// Of reports whether this is the Node of a server: by the machine's own UUID, which is
// Nova's, or by the cloud's id if the machine has none. Names and addresses are given to
// another server later. A kubelet that finds no UUID of the firmware's takes the machine id, which
// has no dashes.
func (n Node) Of(serverID string) bool {
	if serverID == "" {
		return false
	}
	if uuid := n.text("status", "nodeInfo", "systemUUID"); uuid != "" {
		return strings.EqualFold(bare(uuid), bare(serverID))
	}
	provider := n.text("spec", "providerID")
	return len(provider) >= len(serverID) && strings.EqualFold(provider[len(provider)-len(serverID):], serverID)
}

func bare(uuid string) string { return strings.ReplaceAll(uuid, "-", "") }

// Ready is the Node's condition Ready, and what the Node says if it is not True.
func (n Node) Ready() (ready bool, why string) {
	conditions, _, _ := unstructured.NestedSlice(n.Object, "status", "conditions")
	for _, each := range conditions {
		c, _ := each.(map[string]any)
		if c["type"] != "Ready" {
			continue
		}
		reason, _ := c["reason"].(string)
		message, _ := c["message"].(string)
		return c["status"] == "True", strings.TrimSpace(reason + ": " + message)
	}
	return false, "kubelet has not reported yet"
}

// Cordoned reports whether no Pod comes to the Node.
func (n Node) Cordoned() bool {
	unschedulable, _, _ := unstructured.NestedBool(n.Object, "spec", "unschedulable")
	return unschedulable
}

// KubeletVersion is that of the Node's kubelet when it started, such as v1.34.4, without what
// distributions append.
func (n Node) KubeletVersion() string {
	version, _, _ := strings.Cut(n.text("status", "nodeInfo", "kubeletVersion"), "+")
	return version
}

// Addresses are the Node's IP addresses.
func (n Node) Addresses() []string {
	all, _, _ := unstructured.NestedSlice(n.Object, "status", "addresses")
	var addresses []string
	for _, each := range all {
		a, _ := each.(map[string]any)
		if address, ok := a["address"].(string); ok && (a["type"] == "InternalIP" || a["type"] == "ExternalIP") {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

func (n Node) text(fields ...string) string {
	text, _, _ := unstructured.NestedString(n.Object, fields...)
	return text
}

// pageSize bounds the agent's memory in large clusters.
const pageSize = 100

// ListNodes lists all Nodes. Images and managed fields, which are most of a Node, are left out.
func (c *Client) ListNodes(ctx context.Context) ([]Node, error) {
	var all []Node
	for o := (metav1.ListOptions{Limit: pageSize}); ; {
		page, err := c.Resource(Nodes).List(ctx, o)
		if err != nil {
			return nil, c.Explain(err)
		}
		for i := range page.Items {
			n := &page.Items[i]
			unstructured.RemoveNestedField(n.Object, "status", "images")
			n.SetManagedFields(nil)
			all = append(all, Node{n})
		}
		if o.Continue = page.GetContinue(); o.Continue == "" {
			return all, nil
		}
	}
}

// PatchNode sets annotations and, unless it is nil, what spec has; a value that is nil is
// removed. No other Node that has the name by now is changed.
func (c *Client) PatchNode(ctx context.Context, n Node, annotations, spec map[string]any) error {
	patch := map[string]any{"metadata": map[string]any{"uid": n.GetUID(), "annotations": annotations}}
	if spec != nil {
		patch["spec"] = spec
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = c.Resource(Nodes).Patch(ctx, n.GetName(), types.MergePatchType, text, metav1.PatchOptions{FieldManager: FieldManager})
	return c.Explain(err)
}

// DeleteNode deletes the Node in the observed version: in a later one it may be Ready again,
// or let Pods come. It is no error if it is gone. kubelet makes no other before it starts anew.
func (c *Client) DeleteNode(ctx context.Context, n Node) error {
	uid, version := n.GetUID(), n.GetResourceVersion()
	err := c.Resource(Nodes).Delete(ctx, n.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return c.Explain(err)
}
