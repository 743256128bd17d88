package tacker

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// v2 is a VNF of Tacker's v2 API.
type v2 struct {
	*vnf
	// occurrence is the id of the operation in progress.
	occurrence string
	// passed is what Tacker passes from one hook of an operation to the next.
	passed object
	// older: it is a Tacker before 2023.2, which passes nothing.
	older bool
	// healing is the request of the heal in progress.
	healing object
	// known is what Tacker knows of the stack, if that is not what Heat has.
	known object
}

// asV2 is the VNF as one of Tacker's v2 API, which takes text for user_data.
func (v *vnf) asV2() *v2 {
	v.t.Helper()
	v.stackName = "vnf-" + v.id
	for _, name := range ownUserData {
		if v.wanted()[name] != nil {
			v.wanted()[name] = awkward
		}
	}
	v.script, v.vnfdID = &v2{vnf: v, occurrence: uuid.NewString(), passed: object{}}, ""
	return v.script
}

// makes is what Tacker's v2 API does between the hooks of an operation.
func (v *v2) makes(operation string, request object) {
	v.t.Helper()
	if problem := v.toHeat(operation, request); problem != "" {
		v.t.Fatalf("%s: Heat or the UserData class says %s", operation, problem)
	}
	v.unharmed(operation)
}

func (v *v2) toHeat(operation string, request object) (problem string) {
	v.t.Helper()
	return v.orBack(operation, request, false)
}

// orBack is also what Tacker does to roll the operation back.
func (v *v2) orBack(operation string, request object, back bool) (problem string) {
	v.t.Helper()
	var added []object
	for _, s := range v.servers() {
		added = append(added, object{"type": "COMPUTE", "resourceTemplateId": s.name})
	}
	var answer struct {
		Stack   heatStack
		Refused *string
	}
	said := object{"request": request, "tmp_csar_dir": v.folder(), "grant_response": object{}, "is_rollback": back, "stack": v.kept.heat,
		"vnf_instance": object{"id": v.id, "vnfdId": v.vnfd(),
			"instantiatedVnfInfo": object{"flavourId": "simple", "metadata": object{"nfv": v.kept.heat.Parameters["nfv"]}}},
		"grant_request": object{"vnfLcmOpOccId": v.occurrence, "operation": operation, "addResources": added, "dstVnfdId": v.vnfd()}}
	if problem := v.program(&answer, said, "testdata/user_data_v2.py"); problem != "" {
		return problem
	}
	if answer.Refused != nil {
		return *answer.Refused
	}
	v.kept.heat = answer.Stack
	return ""
}

// heal is a whole one; no server means all.
func (v *v2) heal(servers ...*server) {
	v.t.Helper()
	v.next()
	var removed object
	v.healing, removed = v.healOf(servers...)
	v.succeeds("heal_start", v.healing, removed)
	v.healed(servers...)
	v.succeeds("heal_end", v.healing, removed)
}

// healOf is a request to heal, and what the grant says of it.
func (v *v2) healOf(servers ...*server) (request, removed object) {
	if len(servers) == 0 {
		return v.healAll(), v.removes(v.servers()...)
	}
	return healOf(servers...), v.removes(servers...)
}

// healAll is the request to heal all. The stack is made anew, with what the class that it names makes of it.
func (v *v2) healAll() object {
	parameters := object{"all": true}
	for _, name := range append([]string{"lcm-operation-user-data", "lcm-operation-user-data-class"}, ownUserData...) {
		parameters[name] = v.wanted()[name]
	}
	return object{"additionalParams": parameters}
}

// instantiated brings the VNF into service.
func (v *v2) instantiated() {
	v.t.Helper()
	v.succeeds("instantiate_start", v.body, nil)
	v.created()
	v.succeeds("instantiate_end", v.body, nil)
}

// vim is the VIM's connection.
func (v *v2) vim() (vim object) {
	v.t.Helper()
	var all []object
	if err := json.Unmarshal(v.cloud.VIM(), &all); err != nil {
		v.t.Fatal(err)
	}
	return all[0]
}

// ended is how a script has ended.
type ended struct {
	Code   int
	Error  string
	Output object
}

// exec runs a hook and waits for its end.
func (v *v2) exec(hook string, request object, more object) ended {
	v.t.Helper()
	return v.ended(v.run(hook, request, more))
}

// run begins a hook.
func (v *v2) run(hook string, request object, more object) *running {
	v.t.Helper()
	instance := object{"id": v.id, "vnfdId": v.vnfd(), "vimConnectionInfo": object{"vim1": v.vim()}}
	if v.name != "" {
		instance["vnfInstanceName"] = v.name
	}
	if v.stack != "" {
		instance["instantiatedVnfInfo"] = v.info()
	}
	if hook == "terminate_end" { // Tacker has forgotten the cloud by then
		instance["vimConnectionInfo"] = object{}
	}
	said := object{"operation": hook, "request": request, "vnf_instance": instance, "tmp_csar_dir": v.folder(),
		"grant_request": object{"vnfLcmOpOccId": v.occurrence}, "grant_response": object{}, "user_script_err_handling_data": v.passed}
	if v.older {
		delete(said, "user_script_err_handling_data")
	}
	for key, value := range more {
		said[key] = value
	}
	input, err := json.Marshal(said)
	if err != nil {
		v.t.Fatal(err)
	}
	return v.start(hook, v.python("testdata/v2.py", filepath.Join(v.folder(), "Definitions/nodehitch_script.py")), input)
}

// info is what Tacker knows of the stack.
func (v *v2) info() object {
	if v.known != nil {
		return v.known
	}
	var resources, vnfcs []object
	for _, s := range v.servers() {
		resources = append(resources, object{"id": "r-" + s.id, "vduId": s.name, "computeResource": object{"resourceId": s.id}})
		vnfcs = append(vnfcs, object{"id": vnfcOf(s), "vduId": s.name, "vnfcResourceInfoId": "r-" + s.id})
	}
	return object{"flavourId": "simple", "metadata": object{"stack_id": v.stack}, "vnfcResourceInfo": resources, "vnfcInfo": vnfcs}
}

// vnfcOf is the id of a server's VNFC: of another server it is another one.
func vnfcOf(s *server) string { return s.name + "-" + s.id }

// healOf is a request to heal the VNFCs of these servers.
func healOf(servers ...*server) object {
	var vnfcs []string
	for _, s := range servers {
		vnfcs = append(vnfcs, vnfcOf(s))
	}
	return object{"vnfcInstanceId": vnfcs}
}

// ended waits for the end of a hook.
func (v *v2) ended(r *running) (e ended) {
	v.t.Helper()
	if err := r.process.How(); err != nil {
		v.t.Fatalf("%s: %v\n%s", r.hook, err, r.stderr.String())
	}
	if err := json.Unmarshal([]byte(r.out.String()), &e); err != nil {
		v.t.Fatal(err)
	}
	if kept, ok := e.Output["user_script_err_handling_data"].(object); ok {
		v.passed = kept
	}
	return e
}

// problem is empty if the script has succeeded.
func (e ended) problem() string {
	if e.Code == 0 {
		return ""
	}
	return e.Error
}

func (v *v2) succeeds(hook string, request object, more object) {
	v.t.Helper()
	if e := v.exec(hook, request, more); e.Code != 0 {
		v.t.Fatalf("%s: exit %d: %s", hook, e.Code, e.Error)
	}
}

// healAgain heals all. The first time the END fails, so that Tacker keeps the stack and the servers of before, which
// Heat has deleted; its retry makes the stack once more.
func (v *v2) healAgain() {
	v.t.Helper()
	before := v.next()
	v.healing = v.healAll()
	removed := v.removes(v.servers()...)
	known := v.info()
	v.succeeds("heal_start", v.healing, removed)
	v.healed()
	v.workers[0].node.say(func(s *api.NodeStatus) { set(s, api.ConditionReady, api.ConditionFalse, api.ReasonConverging, "x") })
	v.configure(map[string]string{"deadline": "2"})
	if e := v.exec("heal_end", v.healing, removed); e.Code != 1 || !strings.Contains(e.Error, v.workers[0].id) {
		v.t.Errorf("exit %d: %s", e.Code, e.Error)
	}
	v.configure(nil)

	v.known = known
	v.succeeds("heal_start", v.healing, removed)
	v.known = nil
	v.healed()
	v.succeeds("heal_end", v.healing, removed)
	v.asRecorded(before, "HEAL START COMPLETED", "HEAL END FAILED", "HEAL START COMPLETED", "HEAL END COMPLETED")
	if i := v.instance(); i.StackID != v.stack || len(i.Nodes) != len(v.servers()) {
		v.t.Errorf("the instance has the stack %s and the nodes %v; Heat made %s", i.StackID, i.Nodes, v.stack)
	}
}

// next begins another operation.
func (v *v2) next() (before int) {
	v.occurrence, v.passed = uuid.NewString(), object{}
	return len(v.operations())
}

// removes is the grant request that says which servers Tacker takes away.
func (v *v2) removes(servers ...*server) object {
	var list []object
	for _, s := range servers {
		list = append(list, object{"type": "LINKPORT", "resource": object{"resourceId": s.port}}, object{"type": "COMPUTE", "resource": object{"resourceId": s.id}})
	}
	return object{"grant_request": object{"vnfLcmOpOccId": v.occurrence, "removeResources": list}}
}

// coordination is what Tacker says about a server that a new VNF package has changed.
func (v *v2) coordination(s *server) object {
	return object{"LcmCoordRequest": object{}, "vnfc_info_id": vnfcOf(s), "inst": object{"id": v.id, "instantiatedVnfInfo": v.info()}}
}

// TestV2 takes one VNF through the hooks of the script.
func TestV2(t *testing.T) {
	results.Begin(t, suite, "v2", "the hooks of Tacker's v2 API: the script of a VNF package through the life of a VNF, and its errors")
	w := newTackerMachine(t)
	v := w.newVNF().asV2()
	v.name = "web"

	storage := v.body["additionalParams"].(object)["k8s_cluster_installation_param"].(object)["storage_server"].(object)
	good := storage["nfs_server_setup_params"]
	storage["nfs_server_setup_params"] = []object{{"export_dir": "/elsewhere", "export_to": "10.10.0.0/24"}}
	if e := v.exec("instantiate_start", v.body, nil); e.Code != 1 || !strings.Contains(e.Error, "nfs_server_setup_params/0/export_dir") ||
		strings.Contains(e.Error, "Traceback") || strings.Contains(strings.TrimSuffix(e.Error, `\n'`), `\n`) {
		t.Errorf("a wrong request: exit %d: %s", e.Code, e.Error)
	}
	storage["nfs_server_setup_params"] = good
	if e := v.exec("instantiate_start", v.body, object{"foreign": true}); e.Code != 1 || !strings.Contains(e.Error, "subprocess.CompletedProcess") {
		t.Errorf("a pickle with a class: exit %d: %s", e.Code, e.Error)
	}

	v.instantiated()
	v.asRecorded(0, "INSTANTIATE START COMPLETED", "INSTANTIATE END COMPLETED")
	if i := v.instance(); i.Name != "web" {
		t.Errorf("the instance has the name %q", i.Name)
	}

	before := v.next()
	scale := scaleRequestV2("SCALE_IN")
	v.succeeds("scale_start", scale, v.removes(v.workers[0]))
	v.gone(v.workers[0])
	left := v.workers[0].id
	v.workers = v.workers[1:]
	v.heat("UPDATE_COMPLETE")
	v.succeeds("scale_end", scale, v.removes())
	v.asRecorded(before, "SCALE START COMPLETED", "SCALE END COMPLETED")
	if n := w.Node(left); n.State != api.NodeRevoked {
		t.Errorf("the server that has left is %s", n.State)
	}

	before = v.next()
	removed := v.removes(v.workers[0])
	for at, names := range [][]string{{"workerNode-x"}, {vnfcOf(v.workers[0]), "workerNode-x"}} {
		want := fmt.Sprintf(`/vnfcInstanceIds/%d: no server has the VNFC instance, the id or the nested stack "workerNode-x"`, at)
		if e := v.exec("heal_start", object{"vnfcInstanceId": names}, removed); e.Code != 1 || !strings.Contains(e.Error, want) {
			t.Errorf("a heal of %v: exit %d: %s; want %s", names, e.Code, e.Error, want)
		}
	}
	v.asRecorded(before)
	v.heal(v.workers[0])
	v.asRecorded(before, "HEAL START COMPLETED", "HEAL END COMPLETED")
	if targets := v.newest().Targets; len(targets) != 1 || targets[0].NodeID != v.workers[0].id {
		t.Errorf("the END was about %+v, want the new worker alone", targets)
	}
	v.older = true
	v.heal(v.workers[0])
	if targets := v.newest().Targets; len(targets) != 1 || targets[0].NodeID != v.workers[0].id {
		t.Errorf("with an older Tacker the END was about %+v, want the new worker alone", targets)
	}
	v.older = false
	v.heal(v.storage)
	v.healAgain()

	before = v.next()
	manifest := filepath.Join(v.folder(), "Files/kubernetes/nfs-pv1.yaml")
	text, err := os.ReadFile(manifest)
	if err == nil {
		err = os.WriteFile(manifest, append(text, "# of the new package\n"...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	files := v.instance().Files
	request := object{"vnfdId": v.vnfd(), "additionalParams": v.body["additionalParams"]}
	v.succeeds("change_current_package_start", request, nil)
	v.succeeds("change_current_package_end", request, nil)
	v.asRecorded(before, "CHANGE_VNFPKG START COMPLETED", "CHANGE_VNFPKG END COMPLETED")
	changed := 0
	for i, f := range v.instance().Files {
		if f.Sha256 != files[i].Sha256 {
			changed++
		}
	}
	if changed != 1 {
		t.Errorf("%d files have changed, want the manifest", changed)
	}

	coordinated := v.coordination(v.workers[0])
	v.workers[0].node.say(func(s *api.NodeStatus) { set(s, api.ConditionReady, api.ConditionFalse, api.ReasonConverging, "x") })
	loopback.Until(t, "the worker is not Ready", func() bool { return !w.Node(v.workers[0].id).Ready })
	w.configure(map[string]string{"deadline": "1"})
	if e := v.exec("coordinate_vnf", nil, coordinated); e.Code != 1 || !strings.Contains(e.Error, v.workers[0].id+": was not Ready after 1 s") {
		t.Errorf("coordination of a server that is not Ready: exit %d: %s", e.Code, e.Error)
	}
	w.configure(nil)
	v.workers[0].node.say(nil)
	v.succeeds("coordinate_vnf", nil, coordinated)

	v.next()
	v.succeeds("terminate_start", object{}, nil)
	w.cloud.Remove(v.stack)
	v.succeeds("terminate_end", object{}, nil)
	forgotten(v.vnf)
}
