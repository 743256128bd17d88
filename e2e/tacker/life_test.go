package tacker

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

var joinParameters = []string{"nodehitch_controller_urls", "nodehitch_root_certificate", "nodehitch_root_certificate_lines", "nodehitch_pin", "nodehitch_join_token"}

// TestLife takes one VNF through every hook of the v1 API.
func TestLife(t *testing.T) {
	r := results.Begin(t, suite, "life", "every hook of Tacker's v1 driver, from the specification's request to a VNF that is forgotten")
	w := newTackerMachine(t)
	v := w.newVNF()
	v.name = " web\t1 東京" // Tacker takes any characters
	before := 0
	since := func() int { before = len(v.operations()); return before }

	o := v.instantiateStart()
	r.Figure("Python", "%s", o.Python)
	v.asRecorded(0, "INSTANTIATE START COMPLETED")
	i := v.instance()
	if i.Name != "web1 東京" {
		t.Errorf("the instance has the name %q", i.Name)
	}
	if len(i.MissingFiles) > 0 || len(i.Files) != 4 || i.StackID != "vnflcm_"+v.id {
		t.Errorf("after instantiate_start the controller lacks %v, has %+v and the stack %q", i.MissingFiles, i.Files, i.StackID)
	}
	if strings.Contains(string(i.AdditionalParams), "nodehitch_") {
		t.Errorf("the join parameters are in the controller's additionalParams: %s", i.AdditionalParams)
	}
	trust := w.Trust()
	want := []any{strings.Join(trust.Urls, "\n") + "\n", trust.RootCertificate, trust.RootCertificate, trust.Pin, w.JoinToken(v.id)}
	again, _ := v.retried()["additionalParams"].(object)
	for n, name := range joinParameters {
		for where, got := range map[string]any{"the request": o.Request[name], "a retry's request": again[name]} {
			if list, ok := got.([]any); ok {
				text := ""
				for _, line := range list {
					text += line.(string) + "\n"
				}
				got = text
			}
			if got != want[n] {
				t.Errorf("%s has %s %v, want %v", where, name, got, want[n])
			}
		}
	}
	if o.Request["k8s_cluster_installation_param"] == nil || again["k8s_cluster_installation_param"] == nil {
		t.Error("the request has lost its own parameters")
	}

	v.created()
	v.call("instantiate_end", v.instantiateRequest(), nil).succeeds()
	v.asRecorded(1, "INSTANTIATE END COMPLETED")
	if i := v.instance(); i.State != api.Instantiated || i.StackID != v.stack || len(i.Nodes) != 4 {
		t.Errorf("after instantiate_end the instance is %s with the stack %s and the nodes %v", i.State, i.StackID, i.Nodes)
	}

	t.Run("scale out", func(t *testing.T) {
		since()
		v.workers = append(v.workers, v.newWorker())
		v.begin("SCALE", scaleRequest("SCALE_OUT"))
		v.heat("UPDATE_COMPLETE")
		v.boot()
		v.call("scale_end", object{"type": "SCALE_OUT", "aspect_id": "worker_instance", "number_of_steps": 1},
			object{"scale_out_id_list": []string{v.workers[2].member}}).succeeds()
		v.asRecorded(before, "SCALE END COMPLETED")
		if n := w.Node(v.workers[2].id); !n.Ready {
			t.Errorf("the new worker is %+v", n)
		}
	})
	t.Run("heal of a worker", func(t *testing.T) {
		since()
		old := v.workers[0].id
		v.heal(v.workers[0])
		v.asRecorded(before, "HEAL START COMPLETED", "HEAL END COMPLETED")
		if targets := v.newest().Targets; len(targets) != 1 || targets[0].NodeID != v.workers[0].id {
			t.Errorf("the END was about %+v, want the new worker alone", targets)
		}
		if n := w.Node(old); n.State != api.NodeRevoked {
			t.Errorf("the old worker is %s", n.State)
		}
	})
	t.Run("heal of the storage server", func(t *testing.T) {
		since()
		request := healRequest(v.storage)
		v.begin("HEAL", nil)
		v.masters[0].node.say(func(s *api.NodeStatus) {
			set(s, api.ConditionPersistentVolumesRegistered, api.ConditionFalse, api.ReasonInUse, "the claim default/data uses pv1")
			set(s, api.ConditionReady, api.ConditionFalse, api.ReasonInUse, "the claim default/data uses pv1")
		})
		v.call("heal_start", request, nil).raises("HEAL START", "in use: the claim default/data uses pv1; ")
		v.masters[0].node.say(nil)
		v.call("heal_start", request, nil).succeeds() // Tacker's retry, with the same occurrence
		v.asRecorded(before, "HEAL START FAILED", "HEAL START COMPLETED")
		v.healed(v.storage)
		v.call("heal_end", request, nil).succeeds()
	})
	t.Run("change of external connectivity", func(t *testing.T) {
		since()
		request := object{"ext_virtual_links": []object{{"ext_cps": []object{{"cpd_id": "workerNode_CP2"}}}}}
		v.begin("CHANGE_EXT_CONN", nil)
		v.call("change_external_connectivity_start", request, nil).succeeds()
		v.workers[1].address = "10.10.7.7"
		if problem := v.connected("workerNode_CP2"); problem != "" {
			t.Fatal(problem)
		}
		v.call("change_external_connectivity_end", request, nil).succeeds()
		v.asRecorded(before, "CHANGE_EXT_CONN START COMPLETED", "CHANGE_EXT_CONN END COMPLETED")
		if targets := v.newest().Targets; len(targets) != len(v.workers) {
			t.Errorf("the END was about %+v, want the workers", targets)
		}
	})
	t.Run("modification of information", func(t *testing.T) {
		since()
		v.begin("MODIFY_INFO", nil)
		v.call("modify_information_start", nil, nil).succeeds()
		v.call("modify_information_end", nil, nil).succeeds()
		v.asRecorded(before, "MODIFY_INFO START COMPLETED", "MODIFY_INFO END COMPLETED")
		v.begin("MODIFY_INFO", nil)
		v.call("modify_information_end", nil, nil).succeeds()
		if n := len(v.operations()) - before; n != 3 {
			t.Errorf("there are %d records; want one more for the second modification", n)
		}
	})
	t.Run("heal of the entire VNF", func(t *testing.T) {
		since()
		v.heal()
		v.asRecorded(before, "HEAL START COMPLETED", "HEAL END COMPLETED")
		if i := v.instance(); i.StackID != v.stack {
			t.Errorf("the instance has the stack %s; Heat made %s", i.StackID, v.stack)
		}
	})
	t.Run("termination", func(t *testing.T) {
		v.begin("TERMINATE", nil)
		v.call("terminate_start", object{}, nil).succeeds()
		for _, s := range v.servers() {
			v.gone(s)
		}
		w.cloud.Remove(v.stack)
		v.stack = ""
		v.call("terminate_end", object{}, nil).succeeds()
		forgotten(v)
		v.call("terminate_end", object{}, nil).succeeds() // a retry after a lost answer
	})
	r.Figure("hooks", "%d", v.calls)
	if token, err := os.ReadFile(w.path("token")); err != nil || strings.Contains(string(w.Log()), strings.TrimSpace(string(token))) {
		t.Errorf("the controller's log has the token (%v)", err)
	}
}

// TestLifeOfAPackageFromBefore heals a VNF whose package takes the root certificate as one text. Tacker
// alters that text, once more at each heal.
func TestLifeOfAPackageFromBefore(t *testing.T) {
	results.Begin(t, suite, "package-from-before", "a VNF of a package that takes the root certificate as one text is healed three times, and new servers get the certificate as it is; a change of connectivity is refused at its START")
	w := newTackerMachine(t)
	v := w.newVNF()
	v.before()
	v.instantiated()
	v.heal(v.workers[0])
	v.heal(v.storage)
	v.heal()
	before := len(v.operations())
	v.begin("CHANGE_EXT_CONN", nil)
	request := object{"ext_virtual_links": []object{{"ext_cps": []object{{"cpd_id": "workerNode_CP2"}}}}}
	v.call("change_external_connectivity_start", request, nil).raises("master_agent, storage_server_agent, worker_agent are templates outside of groups", "nodehitch_root_certificate")
	v.asRecorded(before)
	v.begin("TERMINATE", nil)
	v.call("terminate_start", object{}, nil).succeeds()
	v.deleted()
	v.call("terminate_end", object{}, nil).succeeds()
}

// TestTextForUserData: text is what Tacker's v1 API alters at the first heal.
func TestTextForUserData(t *testing.T) {
	results.Begin(t, suite, "user-data-text", "instantiate_start of the v1 API refuses text for user_data, before there is anything")
	w := newTackerMachine(t)
	v := w.newVNF()
	v.wanted()["worker_user_data"] = awkward
	v.begin("INSTANTIATE", v.body)
	v.call("instantiate_start", v.instantiateRequest(), nil).raises("worker_user_data")
	v.call("terminate_end", nil, nil).succeeds() // Tacker's rollback
	forgotten(v)
}

// forgotten asserts that the controller has the instance no more.
func forgotten(v *vnf) {
	v.t.Helper()
	answer, err := v.API.GetInstance(v.t.Context(), v.id, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusNotFound {
		v.t.Errorf("the controller still has the instance: %s", answer.Status)
	}
}

// TestWrongRequests shows what Tacker shows: every fault at once, before Heat begins.
func TestWrongRequests(t *testing.T) {
	results.Begin(t, suite, "wrong-requests", "a wrong body and a missing file are refused by instantiate_start, with every fault at its place")
	w := newTackerMachine(t)
	v := w.newVNF()
	cluster := v.body["additionalParams"].(object)["k8s_cluster_installation_param"].(object)
	storage := cluster["storage_server"].(object)
	exports := storage["nfs_server_setup_params"].([]any)
	exports[1].(object)["export_to"] = "10.10.0.0/99"
	master := cluster["master_node"].(object)
	cidr := master["pod_cidr"]
	master["pod_cidr"] = "not an address"
	v.begin("INSTANTIATE", v.body)
	text := v.call("instantiate_start", v.instantiateRequest(), nil).raises("the request is not valid",
		"/additionalParams/k8s_cluster_installation_param/storage_server/nfs_server_setup_params/1/export_to: ",
		"/additionalParams/k8s_cluster_installation_param/master_node/pod_cidr: ")
	if strings.Contains(text, "\n") {
		t.Errorf("the text has several lines: %q", text)
	}
	forgotten(v)

	exports[1].(object)["export_to"], master["pod_cidr"] = "10.10.0.0/24", cidr
	if err := os.Remove(filepath.Join(v.folder(), "Files/kubernetes/nfs-pv2.yaml")); err != nil {
		t.Fatal(err)
	}
	v.call("instantiate_start", v.instantiateRequest(), nil).raises("Files/kubernetes/nfs-pv2.yaml")
	v.call("terminate_end", nil, nil).succeeds() // Tacker's rollback
	forgotten(v)
	v.call("terminate_end", nil, nil).succeeds() // of an instance that the controller never had
}

// TestAnAgentThatNeverCame ends at the deadline with every node that is not Ready; a retry of
// the hook waits again and joins what is running.
func TestAnAgentThatNeverCame(t *testing.T) {
	results.Begin(t, suite, "never-came", "instantiate_end fails at its deadline with name, condition, reason and message of each node that is not Ready; a retry succeeds")
	w := newTackerMachine(t)
	v := w.newVNF()
	v.instantiateStart()
	v.heat("CREATE_COMPLETE")
	late := v.workers[1]
	late.node = &node{stop: func() {}} // its VM does not boot
	v.boot()
	v.storage.node.say(func(s *api.NodeStatus) {
		set(s, api.ConditionVolumesMounted, api.ConditionFalse, api.ReasonWaitingForDevice, "no disk has the serial number of the volume")
		set(s, api.ConditionReady, api.ConditionFalse, api.ReasonWaitingForDevice, "no disk has the serial number of the volume")
	})
	loopback.Until(t, "the storage server has reported", func() bool {
		n := w.Node(v.storage.id)
		return n.Status != nil && n.Status.Condition(api.ConditionVolumesMounted) != nil
	})
	w.configure(map[string]string{"deadline": "2"})
	v.call("instantiate_end", v.instantiateRequest(), nil).raises("INSTANTIATE END", "workerNode ("+late.id+"): NotEnrolled",
		"storage_server ("+v.storage.id+"): WaitingForDevice", api.ConditionVolumesMounted, "no disk has the serial number")
	v.asRecorded(1, "INSTANTIATE END FAILED")
	w.configure(nil)
	late.node = nil
	v.storage.node.say(nil)
	v.boot()
	v.call("instantiate_end", v.instantiateRequest(), nil).succeeds()
	v.asRecorded(1, "INSTANTIATE END FAILED", "INSTANTIATE END COMPLETED")
	v.call("instantiate_end", v.instantiateRequest(), nil).succeeds() // a duplicate
	v.asRecorded(1, "INSTANTIATE END FAILED", "INSTANTIATE END COMPLETED")
}

// TestTwoVNFs are instantiated at once.
func TestTwoVNFs(t *testing.T) {
	results.Begin(t, suite, "two-vnfs", "the hooks of two VNFs run at once; neither gets anything of the other")
	w := newTackerMachine(t)
	all := []*vnf{w.newVNF(), w.newVNF()}
	var hooks []*running
	for _, v := range all {
		v.begin("INSTANTIATE", v.body)
		hooks = append(hooks, v.call("instantiate_start", v.instantiateRequest(), nil))
	}
	for n, v := range all {
		v.join, _ = hooks[n].succeeds().Request["nodehitch_join_token"].(string)
		v.heat("CREATE_COMPLETE")
		v.boot()
		hooks[n] = v.call("instantiate_end", v.instantiateRequest(), nil)
	}
	if all[0].join == all[1].join {
		t.Error("both have one join token")
	}
	for n, v := range all {
		hooks[n].succeeds()
		var nodes []string
		for _, s := range v.servers() {
			nodes = append(nodes, s.id)
		}
		slices.Sort(nodes)
		if i := v.instance(); !slices.Equal(i.Nodes, nodes) || i.Name != "" {
			t.Errorf("the instance %q has the nodes %v, want %v and no name", i.Name, i.Nodes, nodes)
		}
	}
}

// TestUnderEventlet runs hooks in a Python that is patched as tacker-conductor's. While a hook
// waits, the conductor's other greenlets have to run.
func TestUnderEventlet(t *testing.T) {
	results.Begin(t, suite, "eventlet", "the driver works in a process that eventlet has patched, as tacker-conductor's, and does not hold it up")
	results.LongOnly(t)
	t.Setenv("TACKER_PYTHON", "/usr/bin/python3")
	if out, err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import eventlet").CombinedOutput(); err != nil {
		t.Skipf("this machine's Python has no eventlet (python3-eventlet): %v: %s", err, out)
	}
	t.Setenv("HOOK_UNDER_EVENTLET", "1")
	v := newTackerMachine(t).newVNF()
	v.instantiateStart()
	v.late(v.workers[1])
	v.created()
	end := v.call("instantiate_end", v.instantiateRequest(), nil)
	loopback.Until(t, "the hook waits", func() bool { return strings.Contains(end.stderr.String(), "waiting for INSTANTIATE END") })
	v.workers[1].node = nil
	v.boot() // a machine says nothing for 300 ms
	if o := end.succeeds(); o.Beats < 5 {
		t.Errorf("while the hook waited, another greenlet ran %d times", o.Beats)
	}
}
