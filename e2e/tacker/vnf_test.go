package tacker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

const demo = "../demo/package"

// volumeName is that of the storage server's volume in the base HOT and in the VNFD.
const volumeName = "storage_server_volume"

// vnf is a VNF instance as Tacker has it: its package, its request and its stack.
type vnf struct {
	*tackerMachine
	id string
	// name is vnfInstanceName. Tacker's v1 API gives one that has none its own, the v2 API does not.
	name string
	body object
	// files are the user's own of its package; packageID and vnfdID are Tacker's names for that.
	files, packageID, vnfdID string
	kept                     kept
	// script is the VNF as one of the v2 API, if it is.
	script    *v2
	volume    string
	stack     string // its id, "" before Heat has made it
	stackName string
	masters   []*server
	workers   []*server
	storage   *server
	registry  *server // of the other VNF, which has no other server
	// grouped: the storage server, its port and its volume are of a member of a Heat group. required: its VDU requires the volume.
	grouped, required bool
	// kube, if there is one, has its masters as real agents.
	kube *kubernetes
	// join is the token that the servers get.
	join string
	// calls are how many hooks were begun.
	calls int
}

// server is one of the stack, with its VNFC and its machine.
type server struct {
	name, point, vnfc, id, member, port, address string
	node                                         *node
}

// newVNF is one of the specification's body, word for word, and of the demo's package.
func (w *tackerMachine) newVNF() *vnf {
	w.t.Helper()
	v := w.readVNF("../../shared/params/testdata/persistent-volumes.json")
	for _, name := range ownUserData { // of the v1 API: the id of what Heat keeps
		v.wanted()[name] = uuid.NewString()
	}
	if err := os.CopyFS(v.files, os.DirFS(demo)); err != nil {
		w.t.Fatal(err)
	}
	v.masters = []*server{v.newMaster()}
	v.workers = []*server{v.newWorker(), v.newWorker()}
	v.storage = v.newServer("storage_server", "storage_server_CP")
	return v
}

// readVNF is one of a request, without servers and package.
func (w *tackerMachine) readVNF(request string) *vnf {
	w.t.Helper()
	v := &vnf{tackerMachine: w, id: uuid.NewString(), volume: uuid.NewString(), files: w.t.TempDir(), packageID: uuid.NewString(),
		kept: kept{images: map[string]string{}}}
	v.stackName = "vnflcm_" + v.id
	text, err := os.ReadFile(request)
	if err == nil {
		err = json.Unmarshal(text, &v.body)
	}
	// Another file makes the package another one, with a VNFD id of its own.
	err = errors.Join(err, os.MkdirAll(filepath.Join(v.files, "Files"), 0o700), os.WriteFile(filepath.Join(v.files, "Files", "of"), []byte(v.id), 0o600))
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// folder is the VNF package where Tacker keeps it.
func (v *vnf) folder() string {
	v.vnfd()
	return filepath.Join(v.path("packages"), v.packageID)
}

// vnfd is the id of its VNFD. The package is built when it is first needed.
func (v *vnf) vnfd() string {
	v.t.Helper()
	if v.vnfdID == "" {
		version, template := "v1", "simple-storage"
		if v.script != nil {
			version = "v2"
		}
		if v.registry != nil {
			template = "registry"
		}
		v.onboard(version, template)
	}
	return v.vnfdID
}

func (v *vnf) newServer(name, point string) *server {
	return &server{name: name, point: point, vnfc: uuid.NewString(), id: uuid.NewString(), member: uuid.NewString(), port: uuid.NewString(),
		address: address()}
}

// address is one that no other server is likely to have.
func address() string {
	return fmt.Sprintf("10.10.%d.%d", time.Now().UnixNano()%250, time.Now().UnixNano()/250%250+1)
}

func (v *vnf) newMaster() *server { return v.newServer("masterNode", "masterNode_CP1") }
func (v *vnf) newWorker() *server { return v.newServer("workerNode", "workerNode_CP2") }

func (v *vnf) servers() []*server {
	if v.registry != nil {
		return []*server{v.registry}
	}
	return slices.Concat(v.masters, []*server{v.storage}, v.workers)
}

// heat puts the stack into the cloud, as Heat has it with the present servers.
func (v *vnf) heat(status string) {
	v.t.Helper()
	if v.stack == "" {
		v.stack = uuid.NewString()
	}
	v.kept.status = status
	resources := func(s *server) []openstacktest.Resource {
		v.cloud.Put(openstacktest.Server{ID: s.id, Name: s.name}, openstacktest.Port{ID: s.port, Name: s.point, DeviceID: s.id, Addresses: []string{s.address}})
		return []openstacktest.Resource{
			{Name: s.name, Type: "OS::Nova::Server", PhysicalID: s.id}, {Name: s.point, Type: "OS::Neutron::Port", PhysicalID: s.port},
		}
	}
	group := func(name string, members ...*server) openstacktest.Resource {
		g := openstacktest.Resource{Name: name, Type: "OS::Heat::AutoScalingGroup", PhysicalID: uuid.NewString()}
		for _, s := range members {
			g.Nested = append(g.Nested, openstacktest.Resource{Name: s.member[:8], Type: "member.yaml", PhysicalID: s.member, Nested: resources(s)})
		}
		return g
	}
	if v.registry != nil {
		v.cloud.Put(openstacktest.Stack{ID: v.stack, Name: v.stackName, Status: status, Resources: resources(v.registry)})
		return
	}
	storage := append(resources(v.storage), openstacktest.Resource{Name: volumeName, Type: "OS::Cinder::Volume", PhysicalID: v.volume})
	if v.grouped {
		storage = []openstacktest.Resource{{Name: "storage_instance", Type: "OS::Heat::AutoScalingGroup", PhysicalID: uuid.NewString(), Nested: []openstacktest.Resource{
			{Name: v.storage.member[:8], Type: "member.yaml", PhysicalID: v.storage.member, Nested: storage}}}}
	}
	top := append(storage, group("master_instance", v.masters...), group("worker_instance", v.workers...))
	v.cloud.Put(openstacktest.Volume{ID: v.volume, Name: volumeName, SizeGiB: 1, AttachedTo: []string{v.storage.id}},
		openstacktest.Stack{ID: v.stack, Name: v.stackName, Status: status, Resources: top})
}

// boot starts the machines of the servers that have none.
func (v *vnf) boot() {
	for _, s := range v.servers() {
		switch {
		case s.node != nil:
		case v.kube != nil && slices.Contains(v.masters, s):
			s.node = v.kube.newMaster(v, s.id)
		default:
			s.node = v.newNode(s.id)
		}
	}
}

// created is what Tacker and Heat do between the hooks of an instantiation, and its servers' boot.
func (v *vnf) created() {
	v.t.Helper()
	if v.join == "" { // a script's
		v.join = v.JoinToken(v.id)
	}
	if v.kept.given = nil; v.script != nil {
		v.script.makes("INSTANTIATE", v.body)
	} else {
		v.makes("instantiate", nil)
	}
	v.heat("CREATE_COMPLETE")
	v.boot()
}

// updated is Heat's update of the stack.
func (v *vnf) updated() {
	v.t.Helper()
	v.heat("UPDATE_COMPLETE")
	v.boot()
}

// deleted is Heat's deletion of the stack.
func (v *vnf) deleted() {
	v.t.Helper()
	for _, each := range v.servers() {
		v.gone(each)
	}
	v.cloud.Remove(v.stack)
	v.stack = ""
}

// gone ends a server and its machine.
func (v *vnf) gone(s *server) {
	s.node.stop()
	s.node = nil
	v.cloud.Remove(s.id)
}

// replace makes a server another one, with the same VNFC.
func (v *vnf) replace(s *server) {
	v.gone(s)
	s.id = uuid.NewString()
}

// object is the VnfInstance.
func (v *vnf) object() object {
	info := object{"flavour_id": "simple", "instance_id": nil, "additional_params": v.kept.additional, "vnfc_resource_info": []object{},
		"virtual_storage_resource_info": []object{}}
	if v.required {
		info["virtual_storage_resource_info"] = []object{{"id": v.volume, "virtual_storage_desc_id": volumeName}}
	}
	if v.stack != "" {
		var vnfcs []object
		for _, s := range v.servers() {
			volumes := []string{}
			if v.required && s == v.storage {
				volumes = []string{v.volume}
			}
			vnfcs = append(vnfcs, object{"id": s.vnfc, "vdu_id": s.name, "compute_resource": object{"resource_id": s.id}, "storage_resource_ids": volumes})
		}
		info["instance_id"], info["vnfc_resource_info"] = v.stack, vnfcs
	}
	return object{"id": v.id, "vnf_instance_name": cmp.Or(v.name, "vnf-"+v.id), "tenant_id": "tenant", "vnfd_id": v.vnfd(), "instantiated_vnf_info": info,
		"vim_connection_info": []object{{"vim_id": "vim", "access_info": v.access()}}}
}

// access is the access_info of the VIM, by the names of Tacker's v1 API.
func (v *vnf) access() object {
	return object{"auth_url": v.cloud.URL + "/identity/v3", "username": openstacktest.User, "password": openstacktest.Password,
		"project_name": openstacktest.Project, "project_domain_name": "Default", "user_domain_name": "Default",
		"cert_verify": "True", "region": openstacktest.Region}
}

func (v *vnf) instantiateRequest() object {
	return object{"flavour_id": "simple", "additional_params": v.body["additionalParams"]}
}

// instantiated brings the VNF into service, hook by hook.
func (v *vnf) instantiated() {
	v.t.Helper()
	v.instantiateStart()
	v.created()
	v.call("instantiate_end", v.instantiateRequest(), nil).succeeds()
}

// instantiateStart is the operation until Heat begins.
func (v *vnf) instantiateStart() outcome {
	v.t.Helper()
	v.begin("INSTANTIATE", v.body)
	o := v.call("instantiate_start", v.instantiateRequest(), nil).succeeds()
	v.join, _ = o.Request["nodehitch_join_token"].(string)
	return o
}

// instance is what the controller says of it.
func (v *vnf) instance() *api.Instance {
	v.t.Helper()
	i, err := client.Read[api.Instance](v.API.GetInstance(v.t.Context(), v.id, nil))
	if err != nil {
		v.t.Fatal(err)
	}
	return i
}

// operations are the controller's records, oldest first.
func (v *vnf) operations() []api.Operation {
	v.t.Helper()
	list, err := client.Read[api.OperationList](v.API.ListInstanceOperations(v.t.Context(), v.id, nil))
	if err != nil {
		v.t.Fatal(err)
	}
	slices.Reverse(list.Items)
	return list.Items
}

// newest is the newest record, the zero value if there is none.
func (v *vnf) newest() api.Operation {
	v.t.Helper()
	if list := v.operations(); len(list) > 0 {
		return list[len(list)-1]
	}
	return api.Operation{}
}

// asRecorded asserts the records since the first `before`, each as OPERATION PHASE STATE.
func (v *vnf) asRecorded(before int, want ...string) {
	v.t.Helper()
	var got []string
	for _, o := range v.operations()[before:] {
		got = append(got, fmt.Sprintf("%s %s %s", o.Operation, o.Phase, o.State))
	}
	if !slices.Equal(got, want) {
		v.t.Errorf("the controller has %q, want %q", got, want)
	}
}

// node plays a machine: it enrolls, and reports that it is what each document asks for.
type node struct {
	stop func()
	mu   sync.Mutex
	says func(*api.NodeStatus)
	told bool
	// has is the document that it has reported about last.
	has *api.NodeConfig
}

func (v *vnf) newNode(id string) *node {
	n := &node{}
	m, join, ctx := v.Machine(id), v.join, v.t.Context()
	agent := api.ThisAgent("")
	m.Agent = &agent
	end, ended := make(chan struct{}), make(chan struct{})
	var once sync.Once
	n.stop = func() { once.Do(func() { close(end) }); <-ended }
	v.t.Cleanup(n.stop)
	go func() {
		defer close(ended)
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		enrolled, last := false, ""
		for {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			if !enrolled {
				enrolled = m.Enroll(ctx, join) == nil // refused until the topology has it
				continue
			}
			document, err := m.Config(ctx)
			if err != nil {
				continue
			}
			now := fmt.Sprint(document.Epoch, document.Digest())
			if status, due := n.status(document, now != last); due && m.Report(ctx, status) == nil {
				last = now
			}
		}
	}()
	return n
}

// say changes what the machine reports.
func (n *node) say(change func(*api.NodeStatus)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.says, n.told = change, false
}

func (n *node) status(document *api.NodeConfig, changed bool) (api.NodeStatus, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	due := changed || !n.told
	n.told, n.has = true, document
	status := loopback.Converged(*document)
	for i := range status.Conditions {
		status.Conditions[i].ObservedGeneration = document.Generation
	}
	set(&status, api.ConditionExportsServed, api.ConditionTrue, api.ReasonServed, "")
	if pvs := document.PersistentVolumes; pvs != nil && pvs.State == api.PersistentVolumesAbsent {
		set(&status, api.ConditionPersistentVolumesRegistered, api.ConditionTrue, api.ReasonAbsent, "")
	}
	if n.says != nil {
		n.says(&status)
	}
	return status, due
}

// set changes one condition, if the status has it.
func set(s *api.NodeStatus, condition string, is api.ConditionStatus, reason api.Reason, message string) {
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == condition {
			c.Status, c.Reason, c.Message = is, reason, message
		}
	}
}
