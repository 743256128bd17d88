package request

import (
	"encoding/json"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// expectedRequest and expectedTopology are what a file is for.
const (
	expectedRequest  = "expected a request: the body of Tacker's InstantiateVnfRequest, or an object with additionalParams"
	expectedTopology = "expected a topology: an object with servers"
)

// misplaced says which other file the document is, if it has the mark of one.
func misplaced(document json.RawMessage, expected string) fault.List {
	node, wrong := jsontree.Parse(document)
	if wrong != nil || node.Kind != jsontree.Object {
		return nil
	}
	has := func(names ...string) bool {
		for _, name := range names {
			if node.Get(name) == nil {
				return false
			}
		}
		return true
	}
	var what string
	switch {
	case has("heat_template_version"):
		what = "a HOT template"
	case has("tosca_definitions_version"):
		what = "a TOSCA template, such as a VNFD"
	case has("apiVersion", "clusters"):
		what = "a kubeconfig"
	case has("apiVersion", "kind"):
		what = "a manifest of Kubernetes"
	case has("contexts"), has("server", "ca"), has("server", "caFile"), has("server", "token"), has("server", "tokenFile"):
		what = "a context file of hitchctl"
	case expected == expectedRequest && has("servers"):
		what = "a topology, which --topology takes"
	case expected == expectedTopology && (has("flavourId") || has("additionalParams")):
		what = "a request, which -f takes"
	default:
		return nil
	}
	return fault.List{fault.Root.Fault("is " + what + "; " + expected)}
}
