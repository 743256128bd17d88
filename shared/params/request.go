package params

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// Request is the body of POST /vnflcm/v1/vnf_instances/{vnfInstanceId}/instantiate:
// InstantiateVnfRequest of ETSI GS NFV-SOL 003 V2.6.1 section 5.5.2.4, with Tacker's
// vimConnectionInfo. What only Tacker uses is checked for its shape and kept as
// it was written.
type Request struct {
	// FlavourID is the deployment flavour of the VNFD. 1. flavourId.
	FlavourID string
	// InstantiationLevelID is the instantiation level of the flavour, empty for its
	// default. 0..1. instantiationLevelId.
	InstantiationLevelID string
	// ExtVirtualLinks, ExtManagedVirtualLinks are lists; nil if absent. 0..N.
	// extVirtualLinks, extManagedVirtualLinks.
	ExtVirtualLinks        json.RawMessage
	ExtManagedVirtualLinks json.RawMessage
	// LocalizationLanguage is a language tag, empty if absent. 0..1. localizationLanguage.
	LocalizationLanguage string
	// VIMConnectionInfo is a list (API version 1) or an object (version 2); nil
	// where absent. It can contain secrets. vimConnectionInfo.
	VIMConnectionInfo json.RawMessage
	// AdditionalParams is the text that Params were read from. It can contain secrets.
	AdditionalParams json.RawMessage
	// Params are the parameters of the VNF. Optional in SOL 003, 1 for these VNFs.
	// additionalParams.
	Params *Params
}

// String says which flavour was asked for, and nothing of the raw parts.
func (r *Request) String() string { return fmt.Sprintf("InstantiateVnfRequest(%s)", r.FlavourID) }

// ParseRequest reads the whole body and reports every fault and warning at once,
// with pointers from its root. The Request is nil exactly where there are faults.
func ParseRequest(body []byte) (*Request, Report) {
	r := &reader{}
	node, broken := jsontree.Parse(body)
	if broken != nil {
		r.fault(fault.Root, "%s", broken.Message)
		return nil, r.report(nil, fault.Root)
	}
	for _, f := range node.Duplicates(fault.Root) {
		r.fault(fault.At(f.Pointer), "%s", f.Message)
	}
	r.placeholders(node, fault.Root)
	if node.Kind != jsontree.Object {
		r.wrongKind(fault.Root, node.Kind, required, jsontree.Object)
		return nil, r.report(node, fault.Root)
	}
	o := &object{r: r, at: fault.Root, node: node}
	request := o.request(body)
	report := r.report(node, fault.Root)
	if len(report.Faults) > 0 {
		report.Partial = request.Params
		return nil, report
	}
	return request, report
}

func (o *object) request(body []byte) *Request {
	request := &Request{
		FlavourID:              text(o, "flavourId", required, grammar.Label),
		InstantiationLevelID:   text(o, "instantiationLevelId", optional, grammar.Label),
		ExtVirtualLinks:        o.links(body, "extVirtualLinks", "id", "resourceId"),
		ExtManagedVirtualLinks: o.links(body, "extManagedVirtualLinks", "id", "vnfVirtualLinkDescId", "resourceId"),
		LocalizationLanguage:   text(o, "localizationLanguage", optional, grammar.Label),
		VIMConnectionInfo:      o.vimConnections(body),
	}
	if n := o.node.Get(keyAdditionalParams); n != nil {
		o.known = append(o.known, keyAdditionalParams)
		request.AdditionalParams = body[n.Start:n.End]
		request.Params = o.r.params(n, o.at.Key(keyAdditionalParams))
	} else {
		o.r.fault(o.at, "has no attribute %q, which is required for the VNFs of nodehitch", keyAdditionalParams)
	}
	o.close()
	return request
}

// links reads a list of objects with an identifying text in each of ids.
// Everything else in them is Tacker's.
func (o *object) links(body []byte, name string, ids ...string) json.RawMessage {
	for _, link := range o.objects(name, optional) {
		for _, id := range ids {
			text(link, id, required, grammar.Label)
		}
		if link != nil && name == "extVirtualLinks" {
			link.externalCPs()
		}
	}
	return o.raw(body, name)
}

// externalCPs reads extCps: 1..N in SOL 003, each with the CPD that it is made of.
func (o *object) externalCPs() {
	for _, cp := range o.objects("extCps", required) {
		text(cp, "cpdId", required, grammar.Label)
		cp.attribute("cpConfig", required, jsontree.List, jsontree.Object) // a list in API version 1
	}
}

func (o *object) vimConnections(body []byte) json.RawMessage {
	const name = "vimConnectionInfo"
	n, _ := o.attribute(name, optional, jsontree.List, jsontree.Object)
	if n == nil {
		return nil
	}
	if n.Kind == jsontree.List {
		for _, vim := range o.objects(name, optional) {
			text(vim, "id", required, grammar.Label)
			text(vim, "vimType", required, grammar.Label)
		}
	}
	return o.raw(body, name)
}

// CheckVIMConnectionInfo is what is wrong with vimConnectionInfo of API version 1, a
// list; at is its place. Its objects are checked where they are used.
func CheckVIMConnectionInfo(raw json.RawMessage, at fault.At) fault.List {
	if len(raw) == 0 {
		return nil
	}
	node, broken := jsontree.Parse(raw)
	if broken != nil {
		return fault.List{at.Fault(broken.Message)}
	}
	r := &reader{}
	if node.Kind != jsontree.List || slices.ContainsFunc(node.Items, func(item *jsontree.Node) bool { return item.Kind != jsontree.Object }) {
		r.fault(at, "is not a list of objects; expected VimConnectionInfo[] of SOL003")
	}
	r.placeholders(node, at)
	return r.report(node, at).Faults
}

// raw is the text of an attribute, nil if it is absent.
func (o *object) raw(body []byte, name string) json.RawMessage {
	if !o.has(name) {
		return nil
	}
	n := o.node.Get(name)
	return body[n.Start:n.End]
}
