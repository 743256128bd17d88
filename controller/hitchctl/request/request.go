package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/hitchctl/filekind"
	"github.com/nodehitch/nodehitch/controller/naming"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
	"github.com/nodehitch/nodehitch/shared/strict"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// Kind is which of the two bodies a document is.
type Kind string

// The kinds of bodies.
const (
	Tacker   Kind = "InstantiateVnfRequest" // of ETSI SOL 003, as Tacker takes it
	Envelope Kind = "InstanceSpec"          // of PUT /v1/vnf_instances/{id}
)

// Finding is a fault or a warning, with the document that it is in.
type Finding struct {
	Document string `json:"document"`
	fault.Fault
}

// Request is a body and everything that was found wrong with it and with what
// it is checked together with.
type Request struct {
	Kind Kind
	// Spec is what to PUT; only to be used if there are no Faults.
	Spec api.InstanceSpec
	// Params are what could be read of the parameters, nil if nothing could.
	Params           *params.Params
	Faults, Warnings []Finding

	name string
	// flavour is Tacker's flavourId, "" for none; links its extVirtualLinks.
	flavour string
	links   json.RawMessage
	// templates are those of the package, nil if it has none.
	templates *templates
}

// Read reads a body, JSON or YAML; name is the document's in findings. It never
// fails: what is wrong is in Faults, with pointers from the body's root.
func Read(name string, body []byte) *Request {
	return read(name, body, func(body []byte) ([]byte, json.RawMessage) { return body, nil })
}

// ReadToSend is Read of a body for an instance that may have the secrets whose placeholders
// additionalParams has: only the controller knows which of them it keeps.
func ReadToSend(name string, body []byte) *Request { return read(name, body, withStandIns) }

// read reads what prepare makes of a body, and sends the parameters that prepare returns, if
// there are any.
func read(name string, body []byte, prepare func([]byte) ([]byte, json.RawMessage)) *Request {
	r := &Request{name: name}
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	if other := misplaced(body, filekind.Request, expectedRequest); other != nil {
		r.refuse(name, other)
		return r
	}
	if !json.Valid(body) && len(bytes.TrimSpace(body)) > 0 {
		documents, err := strict.Documents(body)
		if err == nil && len(documents) == 1 {
			body = documents[0]
		} else {
			r.refuse(name, asList(err, "expected one JSON or YAML document"))
			return r
		}
	}
	body, sent := prepare(body)
	if r.Kind = kindOf(body); r.Kind == Envelope {
		r.envelope(body)
	} else {
		r.tacker(body)
	}
	if sent != nil {
		r.Spec.AdditionalParams = sent
	}
	return r
}

// withStandIns is the body with a word in the place of each placeholder of a secret in
// additionalParams, so that everything else can be checked; and additionalParams as it was,
// nil if it contains none.
func withStandIns(body []byte) (checked []byte, sent json.RawMessage) {
	node, wrong := jsontree.Parse(body)
	if wrong != nil || node.Get("additionalParams") == nil {
		return body, nil
	}
	at := node.Get("additionalParams")
	given := body[at.Start:at.End]
	if !bytes.Contains(given, []byte(params.Redacted)) {
		return body, nil
	}
	standIn := bytes.ReplaceAll(given, []byte(params.Redacted), []byte("redacted"))
	return slices.Concat(body[:at.Start], standIn, body[at.End:]), given
}

// kindOf tells the bodies apart by their members: flavourId is required in one
// and unknown in the other.
func kindOf(body []byte) Kind {
	node, wrong := jsontree.Parse(body)
	if wrong != nil || node.Kind != jsontree.Object || node.Get("flavourId") != nil {
		return Tacker
	}
	if node.Get("topology") != nil || node.Get("stackId") != nil {
		return Envelope
	}
	for _, m := range node.Members {
		if m.Name != "additionalParams" && m.Name != "vimConnectionInfo" {
			return Tacker
		}
	}
	if len(node.Members) == 0 {
		return Tacker
	}
	return Envelope
}

func (r *Request) tacker(body []byte) {
	request, report := params.ParseRequest(body)
	r.take(r.name, report)
	r.Params = report.Partial
	if request == nil {
		return
	}
	r.Params, r.flavour, r.links = request.Params, request.FlavourID, request.ExtVirtualLinks
	r.Spec.AdditionalParams = request.AdditionalParams
	r.Spec.VimConnectionInfo = connections(request.VIMConnectionInfo)
}

// connections is vimConnectionInfo as a list: API version 2 of Tacker has an
// object whose keys are only local names.
func connections(raw json.RawMessage) json.RawMessage {
	var named map[string]json.RawMessage
	if json.Unmarshal(raw, &named) != nil {
		return raw
	}
	var list []json.RawMessage
	for _, name := range sortedKeys(named) {
		list = append(list, named[name])
	}
	out, err := json.Marshal(list)
	if err != nil || len(list) == 0 {
		return nil
	}
	return out
}

func sortedKeys(m map[string]json.RawMessage) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (r *Request) envelope(body []byte) {
	if err := strict.Unmarshal(body, &r.Spec); err != nil {
		r.refuse(r.name, asList(err, ""))
	}
	// The parts are validated even when something else is wrong.
	var parts struct {
		AdditionalParams  json.RawMessage `json:"additionalParams"`
		VIMConnectionInfo json.RawMessage `json:"vimConnectionInfo"`
	}
	_ = json.Unmarshal(body, &parts)
	r.refuse(r.name, naming.Check(r.Spec.Name, r.Spec.Labels))
	r.refuse(r.name, params.CheckVIMConnectionInfo(parts.VIMConnectionInfo, fault.Root.Key("vimConnectionInfo")))
	p, report := params.Parse(parts.AdditionalParams, fault.Root.Key("additionalParams"))
	r.take(r.name, report)
	if r.Params = p; p == nil {
		r.Params = report.Partial
	}
	r.checkTopology(r.name, fault.Root.Key("topology"))
}

// UseTopology puts the topology of a document of its own into the request.
func (r *Request) UseTopology(name string, data []byte) {
	t, faults := ReadTopology(data)
	if len(faults) > 0 {
		r.refuse(name, faults)
		return
	}
	r.Spec.Topology = t
	r.checkTopology(name, fault.Root)
}

// ReadTopology reads a document that contains a topology alone.
func ReadTopology(data []byte) (*api.Topology, fault.List) {
	if other := misplaced(data, filekind.Topology, expectedTopology); other != nil {
		return nil, other
	}
	t := &api.Topology{}
	if err := strict.Unmarshal(data, t); err != nil {
		return nil, asList(err, "")
	}
	if faults := topology.Validate(t, fault.Root); len(faults) > 0 {
		return nil, faults
	}
	return t, nil
}

// checkTopology validates the topology, and with it which server plays which role.
func (r *Request) checkTopology(name string, at fault.At) {
	t := r.Spec.Topology
	if t == nil {
		return
	}
	if faults := topology.Validate(t, at); len(faults) > 0 {
		r.refuse(name, faults)
		return
	}
	if r.Params == nil || len(r.Faults) > 0 {
		return
	}
	roles := topology.Assign(r.Params, topology.Normalize(t), at)
	r.refuse(name, roles.Faults)
	r.warn(name, roles.Warnings)
	for _, role := range roles.Missing {
		r.warn(name, fault.List{at.Key("servers").Fault(topology.NoServer(r.Params, role))})
	}
	r.checkVolumes(name, at.Key("volumes"))
}

// checkVolumes warns of each volume of the parameters that the topology does not have.
func (r *Request) checkVolumes(name string, at fault.At) {
	var mounted []params.Volume
	if c := r.Params.Cluster; c != nil && c.StorageServer != nil {
		mounted = c.StorageServer.Volumes
	} else if p := r.Params.Registry; p != nil && p.Volume != nil {
		mounted = []params.Volume{*p.Volume}
	}
	for _, v := range mounted {
		if !slices.ContainsFunc(r.Spec.Topology.Volumes, func(t api.TopologyVolume) bool { return t.ResourceID == v.ResourceID }) {
			r.warn(name, fault.List{at.Fault(fmt.Sprintf("no volume has the resourceId %q, which the parameters mount; its server waits for it", v.ResourceID))})
		}
	}
}

func (r *Request) take(name string, report params.Report) {
	r.refuse(name, report.Faults)
	r.warn(name, report.Warnings)
}

func (r *Request) refuse(name string, faults fault.List) { r.Faults = add(r.Faults, name, faults) }
func (r *Request) warn(name string, faults fault.List)   { r.Warnings = add(r.Warnings, name, faults) }

func add(findings []Finding, name string, faults fault.List) []Finding {
	for _, f := range faults {
		findings = append(findings, Finding{name, f})
	}
	return findings
}

// asList is the faults of an error; without an error, the message.
func asList(err error, message string) fault.List {
	var list fault.List
	switch {
	case err == nil:
		return fault.List{fault.Root.Fault(message)}
	case errors.As(err, &list):
		return list
	}
	return fault.List{fault.Root.Fault(err.Error())}
}
