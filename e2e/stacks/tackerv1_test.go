package stacks

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/cloudinit/hot"
	"github.com/nodehitch/nodehitch/e2e/openstack"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// v1 is a VNF of Tacker's v1 API.
type v1 struct {
	*tackerVNF
	// instantiated are the additionalParams that Tacker keeps with the VNF.
	instantiated object
}

func (m *tacker) newV1(template, request, files string) *v1 {
	m.t.Helper()
	v := &v1{tackerVNF: m.onboard(hot.V1, template, request, files)}
	v.instantiated = v.parameters
	return v
}

// instantiate is hook, UserData class, Heat, hook.
func (v *v1) instantiate() {
	v.t.Helper()
	v.operation("INSTANTIATE")
	v.hook("instantiate_start", v.request(), nil)
	v.heat(v.parameters)
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

// operation makes Tacker begin another one.
func (v *v1) operation(name string) {
	v.t.Helper()
	params, err := json.Marshal(object{"additionalParams": v.parameters})
	if err == nil {
		params, err = json.Marshal(object{"occurrences": []object{{
			"id": uuid.NewString(), "vnf_instance_id": v.id, "operation_state": "PROCESSING", "operation": name, "operation_params": string(params)}}})
	}
	if err := errors.Join(err, os.WriteFile(v.tacker.path("state.json"), params, 0o600)); err != nil {
		v.t.Fatal(err)
	}
}

// heat makes the stack, from the package and what the UserData class makes of the parameters.
func (v *v1) heat(parameters object) {
	v.t.Helper()
	folder := filepath.Join(v.folder(), "BaseHOT", "simple")
	bases, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(bases) != 1 {
		v.t.Fatalf("the package has the base HOTs %v (%v), want one", bases, err)
	}
	v.template = openstack.Template{Name: "vnflcm_" + v.id, Files: map[string]string{}, TimeoutMinutes: 15}
	var base, vnfd object
	v.template.Text = v.readYAML(bases[0], &base)
	v.readYAML(filepath.Join(v.folder(), "Definitions", "nodehitch_df_simple.yaml"), &vnfd)
	nested := map[string]object{}
	paths, err := filepath.Glob(filepath.Join(folder, "nested", "*.yaml"))
	if err != nil {
		v.t.Fatal(err)
	}
	for _, path := range paths {
		var one object
		v.template.Files[filepath.Base(path)] = v.readYAML(path, &one)
		nested[filepath.Base(path)] = one
	}
	v.tacker.python(&v.template.Parameters, object{"hot": base, "nested": nested, "vnfd": vnfd, "additional_params": parameters, "ext_virtual_links": v.links},
		"user_data.py", v.folder())
	v.create()
}

func (v *v1) readYAML(path string, into any) string {
	v.t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		v.t.Fatal(err)
	}
	return string(text)
}

// hook runs a hook of the installed driver, which has to raise nothing.
func (v *v1) hook(name string, request, keywords object) {
	v.t.Helper()
	if raised := v.call(name, request, keywords); raised != "" {
		v.t.Fatalf("%s raised %s", name, raised)
	}
}

// raises runs a hook, which has to raise an exception, and returns what of its text is the driver's.
func (v *v1) raises(name string, request, keywords object) string {
	v.t.Helper()
	text, whole := strings.CutPrefix(v.call(name, request, keywords), "An error occurred in MgmtDriver: ")
	if !whole {
		v.t.Fatalf("%s raised %q; want Tacker's MgmtDriverOtherError", name, text)
	}
	return strings.TrimSuffix(text, ".")
}

// call runs a hook and returns the text of its exception, "" for none.
func (v *v1) call(name string, request, keywords object) (raised string) {
	v.t.Helper()
	var outcome struct {
		Error                 *struct{ Message string }
		Request, Instantiated object
	}
	if keywords == nil {
		keywords = object{}
	}
	operation := name[:strings.LastIndex(name, "_")]
	info := object{"flavour_id": "simple", "instance_id": v.stack, "additional_params": v.instantiated, "vnfc_resource_info": v.vnfcs()}
	v.tacker.python(&outcome, object{"hook": name, "request_name": operation + "_vnf_request", "request": request, "keywords": keywords,
		"vnf_instance": object{"id": v.id, "tenant_id": "tenant", "vnfd_id": v.vnfd(), "vim_connection_info": []object{}, "instantiated_vnf_info": info}}, "hook.py")
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
	v.t.Helper()
	list := []object{}
	for _, s := range v.servers() {
		list = append(list, object{"id": v.vnfc(s), "vdu_id": s.Name, "compute_resource": object{"resource_id": s.PhysicalID}})
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
