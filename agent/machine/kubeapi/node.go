package kubeapi

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Nodes is the resource of Nodes.
var Nodes = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}

// ServerIDAnnotation is on the Node of each member; its value is the member's server id.
const ServerIDAnnotation = "nodehitch.io/server-id"

// Node is a Node of the cluster.
type Node struct{ *unstructured.Unstructured }

// Of reports whether this is the Node of a server: by the machine's own UUID, which is
// Nova's, or by the cloud's id if the machine has none. Names and addresses are given to
// another server later.
func (n Node) Of(serverID string) bool {
	if serverID == "" {
		return false
	}
	if uuid := n.text("status", "nodeInfo", "systemUUID"); uuid != "" {
		return strings.EqualFold(uuid, serverID)
	}
	provider := n.text("spec", "providerID")
	return len(provider) >= len(serverID) && strings.EqualFold(provider[len(provider)-len(serverID):], serverID)
}

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
