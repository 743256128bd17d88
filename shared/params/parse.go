package params

import (
	"encoding/json"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// Parse reads additionalParams and reports every fault and warning at once. at is
// the place of raw in the document that the user sent, where all pointers start.
// The Params are nil exactly if the Report has faults. raw is not kept: a caller that needs
// the unknown attributes again keeps the body.
func Parse(raw json.RawMessage, at fault.At) (*Params, Report) {
	r := &reader{}
	if len(raw) == 0 {
		r.fault(at, "is missing; expected an object with %s or %s", keyCluster, keyRegistry)
		return nil, r.report(nil, at)
	}
	node, broken := jsontree.Parse(raw)
	if broken != nil {
		r.fault(at, "%s", broken.Message)
		return nil, r.report(nil, at)
	}
	for _, f := range node.Duplicates(at) {
		r.fault(fault.At(f.Pointer), "%s", f.Message)
	}
	r.placeholders(node, at)
	p := r.params(node, at)
	report := r.report(node, at)
	if len(report.Faults) > 0 {
		report.Partial = p
		return nil, report
	}
	return p, report
}

// params reads the value of additionalParams; nil if it is no object.
func (r *reader) params(node *jsontree.Node, at fault.At) *Params {
	if node.Kind != jsontree.Object {
		r.wrongKind(at, node.Kind, required, jsontree.Object)
		return nil
	}
	o := &object{r: r, at: at, node: node}
	p := &Params{}
	if c := o.object(keyCluster, optional); c != nil {
		p.Cluster = c.cluster()
	}
	if reg := o.object(keyRegistry, optional); reg != nil {
		p.Registry = reg.registry()
	}
	switch hasCluster, hasRegistry := o.has(keyCluster), o.has(keyRegistry); {
	case hasCluster && hasRegistry:
		r.fault(at, "has both %s and %s; a VNF is either a Kubernetes cluster or a private registry, leave one out", keyCluster, keyRegistry)
	case !hasCluster && !hasRegistry:
		r.fault(at, "has neither %s nor %s; give the one of this VNF", keyCluster, keyRegistry)
	}
	// Tacker's own, which name the script that fills in the Heat parameters, and how it changes the VNF package.
	text(o, "lcm-operation-user-data", optional, anything)
	text(o, "lcm-operation-user-data-class", optional, anything)
	text(o, "upgrade_type", optional, anything)
	text(o, "lcm-operation-coordinate-new-vnf", optional, anything)
	text(o, "lcm-operation-coordinate-old-vnf", optional, anything)
	o.attribute("vdu_params", optional, jsontree.List)
	o.close()
	return p
}

func anything(s string) (string, error) { return s, nil }
