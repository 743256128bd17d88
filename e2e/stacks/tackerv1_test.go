package stacks

import (
	"encoding/json"
	"errors"
	"os"
	"strings"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/cloudinit/hot"
	"github.com/nodehitch/nodehitch/e2e/openstack"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// v1 is a VNF of Tacker's v1 API.
type v1 struct {
	*tackerVNF
	// instantiated are the additionalParams that Tacker keeps with the VNF.
	instantiated object
	// kept is Tacker's text of the stack's parameters.
	kept string
}

func (m *tacker) newV1(template, request, files string) *v1 {
	m.T.Helper()
	v := &v1{tackerVNF: m.onboard(hot.V1, template, request, files)}
	v.instantiated = v.parameters
	return v
}

// instantiate is hook, UserData class, Heat, hook.
func (v *v1) instantiate() {
	v.T.Helper()
	v.operation("INSTANTIATE")
	v.hook("instantiate_start", v.request(), nil)
	v.heat("instantiate", object{"additional_params": v.parameters})
	v.hook("instantiate_end", v.request(), nil)
}

// terminate is hook, Heat, hook.
func (v *v1) terminate(*results.Case) {
	v.operation("TERMINATE")
	v.hook("terminate_start", object{}, nil)
	v.remove()
	v.stack = ""
	v.hook("terminate_end", object{}, nil)
	v.gone()
}

func (v *v1) request() object {
	return object{"flavour_id": "simple", "additional_params": v.parameters}
}

// operation makes Tacker begin another one. Its database has this, and the kept parameters.
func (v *v1) operation(name string) {
	v.T.Helper()
	var state object // VIMs stay
	v.tacker.readJSON(v.tacker.path("state.json"), &state)
	delete(state, "vnf_attributes")
	if v.kept != "" {
		state["vnf_attributes"] = []object{{"vnf_id": v.id, "key": "stack_param", "value": v.kept}}
	}
	params, err := json.Marshal(object{"additionalParams": v.parameters})
	if err == nil {
		state["occurrences"] = []object{{"id": uuid.NewString(), "vnf_instance_id": v.id, "operation_state": "PROCESSING",
			"operation": name, "operation_params": string(params), "state_entered_time": 0}}
		params, err = json.Marshal(state)
	}
	if err := errors.Join(err, os.WriteFile(v.tacker.path("state.json"), params, 0o600)); err != nil {
		v.T.Fatal(err)
	}
}

// heat makes the stack, of the package and what the UserData class makes of the parameters.
func (v *v1) heat(operation string, said object) {
	v.T.Helper()
	said["ext_virtual_links"] = v.links
	v.template = v.toHeat(operation, said)
	v.create()
}

// toHeat is what Tacker sends to Heat for an operation. It keeps the parameters, as it does.
func (v *v1) toHeat(operation string, said object) openstack.Template {
	v.T.Helper()
	said["operation"], said["flavour"], said["instance"], said["kept"] = operation, "simple", v.id, v.kept
	var answer struct {
		Template, Kept string
		Files          map[string]string
		Parameters     object
	}
	v.tacker.python(&answer, said, "stack.py", v.folder())
	v.kept = answer.Kept
	return openstack.Template{Name: "vnflcm_" + v.id, Text: answer.Template, Files: answer.Files, Parameters: answer.Parameters, TimeoutMinutes: 15}
}

// heal is hook, Heat, hook. Tacker makes the stack of the entire VNF anew.
func (v *v1) heal(between func(), servers ...stackServer) {
	v.T.Helper()
	vnfcs, vdus, groups := []string{}, []string{}, map[string]int{}
	for _, s := range servers {
		vnfcs, vdus = append(vnfcs, v.vnfc(s)), append(vdus, s.Name)
	}
	var all []string
	for _, s := range v.servers() {
		all = append(all, s.Name)
		if s.member.Parent != "" {
			groups[s.member.Parent]++
		}
	}
	request := object{"vnfc_instance_id": vnfcs}
	v.operation("HEAL")
	v.hook("heal_start", request, nil)
	between()
	if len(servers) == 0 {
		v.remove()
		v.heat("heal_entire", object{"additional_params": v.instantiated, "vdus": all, "groups": groups})
	} else {
		v.markUnhealthy(servers)
		v.change(v.account.PatchStack, v.toHeat("heal", object{"additional_params": v.instantiated, "vdus": vdus, "groups": groups}))
	}
	v.hook("heal_end", request, nil)
}

// connection is a request that puts a connection point into this network.
func connection(point, network string) object {
	return object{"ext_virtual_links": []object{{"resource_id": network, "ext_cps": []object{{"cpd_id": point}}}}}
}

// connect is hook, Heat, hook. Heat gets its own template again, and those of the members of groups.
func (v *v1) connect(between func(), point, network string) {
	v.T.Helper()
	request := connection(point, network)
	v.operation("CHANGE_EXT_CONN")
	v.hook("change_external_connectivity_start", request, nil)
	between()
	all, members := v.resources(), map[string]string{}
	for _, group := range all {
		for _, r := range all {
			if group.Type == "OS::Heat::AutoScalingGroup" && r.Parent == group.Name {
				members[r.Type] = v.templateOf(r.PhysicalID)
			}
		}
	}
	v.change(v.account.UpdateStack, v.toHeat("change_ext_conn",
		object{"template": v.templateOf(v.stack), "members": members, "networks": object{point: network}}))
	v.hook("change_external_connectivity_end", request, nil)
}

// templateOf is a stack's template, as Heat has it.
func (v *v1) templateOf(stack string) string {
	v.T.Helper()
	t, err := v.account.StackTemplate(v.T.Context(), stack)
	if err != nil {
		v.T.Fatal(err)
	}
	return t.Text
}

// hook runs a hook of the installed driver, which has to raise nothing.
func (v *v1) hook(name string, request, keywords object) {
	v.T.Helper()
	if raised := v.call(name, request, keywords); raised != "" {
		v.T.Fatalf("%s raised %s", name, raised)
	}
}

// raises runs a hook, which has to raise an exception, and returns what of its text is the driver's.
func (v *v1) raises(name string, request, keywords object) string {
	v.T.Helper()
	text, whole := strings.CutPrefix(v.call(name, request, keywords), "An error occurred in MgmtDriver: ")
	if !whole {
		v.T.Fatalf("%s raised %q; want Tacker's MgmtDriverOtherError", name, text)
	}
	return strings.TrimSuffix(text, ".")
}

// call runs a hook and returns the text of its exception, "" for none.
func (v *v1) call(name string, request, keywords object) (raised string) {
	v.T.Helper()
	var outcome struct {
		Error                 *struct{ Message string }
		Request, Instantiated object
	}
	if keywords == nil {
		keywords = object{}
	}
	requestName := name[:strings.LastIndex(name, "_")] + "_vnf_request"
	if strings.HasPrefix(name, "change_") {
		requestName = "change_ext_conn_request"
	}
	info := object{"flavour_id": "simple", "instance_id": v.stack, "additional_params": v.instantiated, "vnfc_resource_info": v.vnfcs(),
		"virtual_storage_resource_info": []object{}} // no VDU of the packages requires a volume
	v.tacker.python(&outcome, object{"hook": name, "request_name": requestName, "request": request, "keywords": keywords,
		"vnf_instance": object{"id": v.id, "vnf_instance_name": "vnf-" + v.id, "tenant_id": "tenant", "vnfd_id": v.vnfd, "vim_connection_info": []object{}, "instantiated_vnf_info": info}}, "hook.py")
	if outcome.Request != nil {
		v.parameters = outcome.Request
	}
	v.instantiated = outcome.Instantiated
	if outcome.Error != nil {
		return outcome.Error.Message
	}
	return ""
}

// vnfcs are Tacker's of the stack, with the servers that Nova has for them now.
func (v *v1) vnfcs() []object {
	v.T.Helper()
	list := []object{}
	for _, s := range v.servers() {
		list = append(list, object{"id": v.vnfc(s), "vdu_id": s.Name, "compute_resource": object{"resource_id": s.PhysicalID}, "storage_resource_ids": []string{}})
	}
	return list
}

// vnfc is the id of a server's VNFC: a heal keeps it.
func (v *v1) vnfc(s stackServer) string { return "vnfc-" + s.Parent + s.Name }

// memberStacks are the ids by which Tacker names members of a group.
func memberStacks(servers []stackServer) (ids []string) {
	for _, s := range servers {
		ids = append(ids, s.member.PhysicalID)
	}
	return ids
}
