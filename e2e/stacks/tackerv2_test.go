package stacks

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/cloudinit/hot"
	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/openstack"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// TestTackersScript takes a VNF through its life by what Tacker's v2 API has alone: a package,
// the spec's additionalParams, the UserData class and the script. With kubernetes in them, its
// machines become a real cluster of three masters that share an address.
func TestTackersScript(t *testing.T) {
	kubelet := kubetest.Machines(t)
	present, err := kube.Version()
	if err != nil {
		t.Fatal(err)
	}
	releases := [2]*kube.Release{kubetest.Release(t, kube.OlderPatch), kubetest.Release(t, present)}
	w := newWorld(t, nil)
	w.hyper.equip(lab.EngineInstalled, kubelet)
	w.ownNetwork()
	files := w.packageOfMade()
	v := w.newTacker().newV2("complex-storage", clusterRequest, files, append([]string{"masterNode", "masterNode"}, clusterServers...)...)
	wanted := v.wantsKubernetes()
	wanted["master_node"].(object)["cluster_cp_name"] = sharedPoint
	wanted["storage_server"].(object)["persistent_volumes_at_heal"] = "keep"
	s := &scripted{v2: v, life: lifeOf(v, 3), kubelet: kubelet, files: files, older: releases[0], present: releases[1]}
	s.life.cluster.made = true
	w.inOrder(
		step{"tacker-v2-rollback", "an instantiation whose machines do not boot fails at its deadline; its rollback leaves no instance", s.rolledBack},
		step{"tacker-v2-instantiate", "the package for the v2 API, its UserData class and its script bring the spec's additionalParams with kubernetes to a cluster whose Nodes are Ready, with the storage server's PersistentVolumes, in a stack of Heat with these parameters and no topology typed; the package files come from where Tacker keeps the package", s.life.create},
		step{"tacker-v2-address", "Neutron lets each master, and no other server, have the shared address, and VRRP through among masters alone; the machines have their ports' addresses, and one master has the shared one", s.shared},
		step{"tacker-v2-vim", "with the address, CA and token of the VIM that Tacker has, a Deployment is made and becomes available", s.byTheVIM},
		step{"tacker-v2-scale-out", "a worker that Heat adds is Ready once scale_end returns", s.scaleOut},
		step{"tacker-v2-scale-in", "the worker that the grant removes has left the cluster, and its identity is void, once scale_end returns", s.scaleIn},
		step{"tacker-v2-heal-worker", "the successor of a worker is Ready once heal_end returns, and the END is about no other server than members of the cluster", s.life.healWorker},
		step{"tacker-v2-heal-master", "the same of a master: the cluster has three again", s.life.healMaster},
		step{"tacker-v2-keep-storage", "while a claim is bound, the storage server is healed and the cluster's PersistentVolumes stay as they are: the parameters say so, and the request names the VNFC alone; the successor has the data at the old address, and mounts it without a word from anybody, once Nova shows no old server", s.keepStorage},
		step{"tacker-v2-heal-storage", "a heal whose request says withdraw: heal_start withdraws the PersistentVolumes of the storage server, and after heal_end its successor serves them", s.withdrawStorage},
		step{"tacker-v2-heal-all", "a heal with all=true makes the stack of the UserData class's parameters, and its machines are another cluster", s.life.healEntire},
		step{"tacker-v2-vim-again", "the VIM is that of the other cluster, and makes a Deployment there", s.byTheVIM},
		step{"tacker-v2-terminate", "the script's TERMINATE leaves no node, no instance and no VIM", s.terminated},
		step{"tacker-v2-change-package", "by another package of the v2 API a cluster of one master and two workers gets the next patch version of Kubernetes, whose programs and images the package has: no server is replaced, each Node has the version once change_current_package_end returns, and what the VIM has made runs", s.changesPackage},
		step{"tacker-made", "the v1 driver makes a cluster of one master in the same way, with a VIM that makes a Deployment, and terminates it", s.byTheDriver},
	)
}

// v2 is a VNF of Tacker's v2 API.
type v2 struct {
	*tackerVNF
	// vdus are those of the servers that the grant for the stack adds.
	vdus []string
	// occurrence is the id of the operation in progress.
	occurrence string
	// kept is what Tacker passes from one script of an operation to the next.
	kept object
	// ofHeal are the additionalParams of a heal of VNFCs, nil for none.
	ofHeal object
	// terminated: Tacker has forgotten what it knew of the stack.
	terminated bool
}

// clusterServers are the VDUs of the servers that clusterRequest gets.
var clusterServers = []string{"masterNode", "storage_server", "workerNode", "workerNode"}

func (m *tacker) newV2(template, request, files string, vdus ...string) *v2 {
	m.T.Helper()
	return &v2{tackerVNF: m.onboard(hot.V2, template, request, files), vdus: vdus}
}

// instantiate is script, UserData class, Heat, script.
func (v *v2) instantiate() {
	v.T.Helper()
	request, grant := v.instantiating()
	v.script("instantiate_end", request, grant)
}

// instantiating ends when Heat has made the stack.
func (v *v2) instantiating() (request, grant object) {
	v.T.Helper()
	v.begin()
	request = object{"flavourId": "simple", "additionalParams": v.parameters, "extVirtualLinks": asV2(v.links)}
	grant = v.grant("INSTANTIATE", added(v.vdus...), nil)
	v.script("instantiate_start", request, grant)
	v.template = v.userData(request, grant)
	v.create()
	return request, grant
}

// terminate is script, Heat, script.
func (v *v2) terminate(*results.Case) {
	v.begin()
	request, grant := object{"terminationType": "FORCEFUL"}, v.grant("TERMINATE", nil, removed(v.servers()...))
	v.script("terminate_start", request, grant)
	v.remove()
	v.terminated = true
	v.script("terminate_end", request, grant)
	v.gone()
}

// begin makes Tacker begin another operation.
func (v *v2) begin() { v.occurrence, v.kept = uuid.NewString(), object{} }

// grant is the request for one, with these resources.
func (v *v2) grant(operation string, add, remove []object) object {
	return object{"vnfLcmOpOccId": v.occurrence, "operation": operation, "addResources": add, "removeResources": remove}
}

// added are what the grant's request says of servers that come.
func added(vdus ...string) (list []object) {
	for _, vdu := range vdus {
		list = append(list, object{"type": "COMPUTE", "resourceTemplateId": vdu})
	}
	return list
}

// removed are what the grant's request says of servers that go.
func removed(servers ...stackServer) (list []object) {
	for _, s := range servers {
		list = append(list, object{"type": "COMPUTE", "resourceTemplateId": s.Name, "resource": object{"resourceId": s.PhysicalID}})
	}
	return list
}

// script runs a hook, which has to succeed.
func (v *v2) script(hook string, request, grant object) {
	v.T.Helper()
	if failed := v.call(hook, request, grant); failed != "" {
		v.T.Fatalf("%s: %s", hook, failed)
	}
}

// call runs a hook, and returns what Tacker shows if it fails.
func (v *v2) call(hook string, request, grant object) (failed string) {
	v.T.Helper()
	var ended struct {
		Code   int
		Error  string
		Output object
	}
	v.tacker.python(&ended, object{"operation": hook, "request": request, "vnf_instance": v.asTackerHasIt(), "tmp_csar_dir": v.folder(),
		"grant_request": grant, "grant_response": object{}, "user_script_err_handling_data": v.kept},
		"v2.py", filepath.Join(v.folder(), "Definitions/nodehitch_script.py"))
	if ended.Code != 0 {
		return fmt.Sprintf("exit %d: %s", ended.Code, ended.Error)
	}
	if kept, ok := ended.Output["user_script_err_handling_data"].(object); ok {
		v.kept = kept
	}
	return ""
}

// userData is what the UserData class that the request names makes of it.
func (v *v2) userData(request, grant object) openstack.Template {
	v.T.Helper()
	var fields struct {
		Template   string
		Parameters object
		Files      map[string]string
	}
	v.tacker.python(&fields, object{"request": request, "vnf_instance": v.asTackerHasIt(), "tmp_csar_dir": v.folder(),
		"grant_request": grant, "grant_response": object{}, "is_rollback": false}, "user_data_v2.py")
	return openstack.Template{Name: "vnf-" + v.id, Text: fields.Template, Files: fields.Files, Parameters: fields.Parameters, TimeoutMinutes: 15}
}

// asTackerHasIt is the VnfInstance.
func (v *v2) asTackerHasIt() object {
	v.T.Helper()
	instance := object{"id": v.id, "vnfdId": v.vnfd, "vimConnectionInfo": object{}}
	if v.terminated {
		instance["instantiatedVnfInfo"] = object{"flavourId": "simple", "vnfState": "STOPPED"}
	} else if v.stack != "" {
		var vnfcs, infos []object
		for _, s := range v.servers() {
			vnfcs = append(vnfcs, object{"id": s.PhysicalID, "vduId": s.Name, "computeResource": object{"resourceId": s.PhysicalID}})
			infos = append(infos, object{"id": vnfcOf(s), "vduId": s.Name, "vnfcResourceInfoId": s.PhysicalID})
		}
		instance["instantiatedVnfInfo"] = object{"flavourId": "simple", "metadata": object{"stack_id": v.stack}, "vnfcResourceInfo": vnfcs, "vnfcInfo": infos}
	}
	return instance
}

// vnfcOf is the id of a server's VNFC: of another server it is another one.
func vnfcOf(s stackServer) string { return s.Name + "-" + s.PhysicalID }

// nfv is the parameter of the stack, as Heat has it.
func (v *v2) nfv() (value object) {
	v.T.Helper()
	s, err := v.account.Stack(v.T.Context(), v.stack)
	if err == nil {
		err = json.Unmarshal([]byte(s.Parameters["nfv"]), &value)
	}
	if err != nil {
		v.T.Fatal(err)
	}
	return value
}

// scaled is nfv with this many workers.
func (v *v2) scaled(workers int) object {
	v.T.Helper()
	nfv := v.nfv()
	nfv["VDU"].(object)["workerNode"].(object)["desired_capacity"] = workers
	return object{"nfv": nfv}
}

// heal is script, Heat, script. With all=true, the request names the UserData class again and what is
// not the default of the base HOT.
func (v *v2) heal(between func(), servers ...stackServer) {
	v.T.Helper()
	v.begin()
	var vnfcs, vdus []string
	for _, s := range servers {
		vnfcs, vdus = append(vnfcs, vnfcOf(s)), append(vdus, s.Name)
	}
	request, grant := object{"vnfcInstanceId": vnfcs}, v.grant("HEAL", added(vdus...), removed(servers...))
	if v.ofHeal != nil {
		request["additionalParams"] = v.ofHeal
	}
	if len(servers) == 0 {
		given := object{"all": true}
		for name, value := range v.parameters {
			if !strings.HasSuffix(name, "_installation_param") {
				given[name] = value
			}
		}
		request, grant = object{"additionalParams": given}, v.grant("HEAL", nil, removed(v.servers()...))
	}
	v.script("heal_start", request, grant)
	between()
	if len(servers) == 0 {
		v.again(request, grant)
	} else {
		v.markUnhealthy(servers)
		v.patch(object{"nfv": v.nfv()})
	}
	v.script("heal_end", request, grant)
}

// again makes another stack of the present one's template.
func (v *v2) again(request, grant object) {
	v.T.Helper()
	of, err := v.account.StackTemplate(v.T.Context(), v.stack)
	if err != nil {
		v.T.Fatal(err)
	}
	v.template = v.userData(request, grant)
	v.template.Text, v.template.Files = of.Text, of.Files
	v.template.Parameters["nfv"] = v.nfv()
	v.remove()
	v.create()
}

// scripted is a cluster whose VNF the script takes through its life.
type scripted struct {
	*v2
	life    *life
	kubelet *lab.Kubelet
	files   string // of its package
	// Machines have the programs and images of present.
	older, present *kube.Release
}

// asV2 are the extVirtualLinks of a v1 request in the form of the v2 API, in which Tacker needs to know
// how a connection point gets its address.
func asV2(links []object) (list []object) {
	for _, link := range links {
		var points []object
		for _, each := range link["extCps"].([]any) {
			point := each.(object)
			configs := object{}
			for i, config := range point["cpConfig"].([]any) {
				for _, data := range config.(object)["cpProtocolData"].([]any) {
					data.(object)["ipOverEthernet"] = object{"ipAddresses": []object{{"type": "IPV4", "numDynamicAddresses": 1}}}
				}
				configs[fmt.Sprintf("%v_%d", point["cpdId"], i)] = config
			}
			points = append(points, object{"cpdId": point["cpdId"], "cpConfig": configs})
		}
		list = append(list, object{"id": link["id"], "resourceId": link["resourceId"], "extCps": points})
	}
	return list
}

// rolledBack is about another VNF, whose machines do not boot.
func (s *scripted) rolledBack(*results.Case) {
	other := s.tacker.newV2("simple-storage", clusterRequest, clusterPackage, clusterServers...)
	project, err := s.account.ProjectID(s.T.Context())
	if err != nil {
		s.T.Fatal(err)
	}
	s.hyper.leaveOff(project, true)
	s.tacker.configure(15 * time.Second)
	request, grant := other.instantiating()
	if failed := other.call("instantiate_end", request, grant); !strings.Contains(failed, "the deadline has passed") {
		s.T.Errorf("instantiate_end ended with %q, want that the deadline has passed", failed)
	}
	other.remove()
	other.stack = "" // Tacker has not kept what it has not completed
	other.script("instantiate_rollback_end", request, grant)
	other.gone()
	s.hyper.leaveOff(project, false)
	s.tacker.configure(hookDeadline)
}

func (s *scripted) scaleOut(*results.Case) {
	s.begin()
	request := object{"type": "SCALE_OUT", "aspectId": "worker_instance", "numberOfSteps": 1}
	grant := s.grant("SCALE", added("workerNode"), nil)
	s.script("scale_start", request, grant)
	s.patch(s.scaled(3))
	s.script("scale_end", request, grant)
	s.life.scaled(3)
}

func (s *scripted) scaleIn(*results.Case) {
	s.begin()
	leaving := s.workers()[0]
	request := object{"type": "SCALE_IN", "aspectId": "worker_instance", "numberOfSteps": 1}
	grant := s.grant("SCALE", nil, removed(leaving))
	s.script("scale_start", request, grant)
	all := s.resources()
	group := slices.IndexFunc(all, func(r openstack.Resource) bool { return r.Name == "worker_instance" })
	if err := s.account.MarkUnhealthy(s.T.Context(), all[group].PhysicalID, leaving.Parent); err != nil {
		s.T.Fatal(err)
	}
	s.patch(s.scaled(2))
	s.script("scale_end", request, grant)
	if n := s.node(leaving.PhysicalID); n.State != api.NodeRevoked {
		s.T.Errorf("the worker that has left is %s", n.State)
	}
	s.life.scaled(2)
}

// keepStorage is of a storage server whose volume a claim uses.
func (s *scripted) keepStorage(r *results.Case) {
	c, before := s.life.cluster, s.one(api.RoleStorage)
	s.run(before, "sh", "-c", "echo kept > /volume/nfs/pv1/kept && sync")
	s.run(c.nodes(api.RoleMaster)[0], "sh", "-c", `echo "$0" | kubectl --kubeconfig /etc/kubernetes/admin.conf apply -f -`, ours)
	c.kubectl("wait", "pv/nfs-pv1", "--for=jsonpath={.status.phase}=Bound", "--timeout=60s")
	volumes := kubetest.Volumes(s.T, c)
	unchanged := func(after string) {
		s.T.Helper()
		if now := kubetest.Volumes(s.T, c); !reflect.DeepEqual(now, volumes) {
			s.T.Errorf("after %s the cluster has %+v, had %+v", after, now, volumes)
		}
	}
	records := len(s.operations())
	var began time.Time
	s.heal(func() { unchanged("heal_start"); began = time.Now() }, s.named("storage_server")...)
	r.Figure("from Heat's begin to the end of heal_end", "%.1f s", time.Since(began).Seconds())
	unchanged("heal_end")
	after := s.one(api.RoleStorage)
	if after.ID == before.ID || !slices.Equal(after.Addresses, before.Addresses) {
		s.T.Errorf("the storage server was %s at %v, is %s at %v", before.ID, before.Addresses, after.ID, after.Addresses)
	}
	if got := s.run(after, "cat", "/volume/nfs/pv1/kept"); got != "kept\n" {
		s.T.Errorf("the file holds %q", got)
	}
	var status *openstack.StatusError
	if err := s.account.Call(s.T.Context(), http.MethodGet, openstack.NovaURL+"/servers/"+before.ID, nil, nil); !errors.As(err, &status) || status.Status != http.StatusNotFound {
		s.T.Errorf("Nova says of the old server: %v; want that there is none", err)
	}
	for _, o := range s.operations()[records:] {
		if o.PersistentVolumes != api.KeepPersistentVolumes || o.OldServerIsOffBy != "" {
			s.T.Errorf("the %s has %q, and %q stated that the old server is off", o.Phase, o.PersistentVolumes, o.OldServerIsOffBy)
		}
	}
	c.kubectl("delete", "pvc", "data", "--timeout=60s")
	s.life.sound()
}

func (s *scripted) withdrawStorage(r *results.Case) {
	s.ofHeal = object{"persistent_volumes": "withdraw"}
	s.life.healStorage(r)
	s.ofHeal = nil
}

func (s *scripted) terminated(r *results.Case) {
	s.terminate(r)
	s.tacker.hasNoVIM()
}
