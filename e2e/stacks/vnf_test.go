package stacks

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"
	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/cloudinit/hot"
	"github.com/nodehitch/nodehitch/e2e/openstack"
	"github.com/nodehitch/nodehitch/shared/api"
)

// vnf is a VNF instance and its Heat stack.
type vnf struct {
	*world
	id      string
	account *openstack.Account
	// template is what the stack is made from; stack is its id, once it is there.
	template openstack.Template
	stack    string
}

// newVNF gives the controller an instance, with an unchanged request of the specs and the
// name of its future stack. It prepares the flavour's template with what the controller
// says of the instance.
func (w *world) newVNF(flavour, request, folder string, parameters map[string]any) *vnf {
	w.T.Helper()
	v := &vnf{world: w, id: uuid.NewString(), account: w.account}
	name := "vnf-" + v.id
	apply := []string{"apply", v.id, "-f", request, "--stack-id", name}
	if folder != "" {
		apply = append(apply, "--package", folder)
	}
	w.Must(apply...)
	environment := filepath.Join(w.T.TempDir(), "nodehitch.yaml")
	w.Must("render", "hot-parameters", v.id, "--file", environment)
	v.template = openstack.Template{Name: name, Files: hot.Files(), TimeoutMinutes: 15}
	v.template.Text = v.template.Files[flavour+".yaml"]
	v.template.Parameters = map[string]any{"nfv": w.places()}
	text, err := os.ReadFile(environment)
	if err == nil {
		err = yaml.Unmarshal(text, &v.template.Environment)
	}
	if err != nil {
		w.T.Fatal(err)
	}
	v.set(parameters)
	return v
}

// set changes parameters of the stack, for its creation or the next update.
func (v *vnf) set(parameters map[string]any) {
	for name, value := range parameters {
		v.template.Parameters[name] = value
	}
}

// ownNetwork gives VNFs a network of their project's own, which vip_CP needs.
func (w *world) ownNetwork() {
	w.T.Helper()
	w.network = "own"
	if err := w.account.OwnNetwork(w.T.Context(), w.network, "10.10.0.32", "10.10.0.239"); err != nil {
		w.T.Fatal(err)
	}
}

// places is where Tacker's `nfv` puts what the templates make.
func (w *world) places() map[string]any {
	machine := map[string]string{"flavor": openstack.Flavor, "image": openstack.Image}
	network := map[string]string{"network": w.network}
	return map[string]any{
		"VDU": map[string]any{"masterNode": machine, "workerNode": machine, "storage_server": machine, "PrivateRegistryVDU": machine},
		"CP": map[string]any{
			"masterNode_CP1": network, "workerNode_CP2": network, "storage_server_CP": network, "CP1": network, "vip_CP": network,
		},
	}
}

// create makes Heat create the stack, and waits until it has.
func (v *vnf) create() {
	v.T.Helper()
	v.begin()
	v.finished("CREATE_COMPLETE")
}

// begin makes Heat begin the stack.
func (v *vnf) begin() {
	v.T.Helper()
	var err error
	if v.stack, err = v.account.CreateStack(v.T.Context(), v.template); err != nil {
		v.T.Fatal(err)
	}
}

// update makes Heat update the stack, and waits until it has.
func (v *vnf) update() {
	v.T.Helper()
	if err := v.account.UpdateStack(v.T.Context(), v.stack, v.template); err != nil {
		v.T.Fatal(err)
	}
	v.finished("UPDATE_COMPLETE")
}

func (v *vnf) finished(status string) {
	v.T.Helper()
	s, err := v.account.WaitStack(v.T.Context(), v.stack)
	if err != nil {
		v.T.Fatal(err)
	}
	if s.Status != status {
		v.T.Fatalf("the stack is %s; want %s", s.Status, status)
	}
}

// remove deletes the stack.
func (v *vnf) remove() {
	v.T.Helper()
	if err := v.account.DeleteStack(v.T.Context(), v.stack); err != nil {
		v.T.Fatal(err)
	}
}

// unhealthy makes the next update replace a resource.
func (v *vnf) unhealthy(resource string) {
	v.T.Helper()
	if err := v.account.MarkUnhealthy(v.T.Context(), v.stack, resource); err != nil {
		v.T.Fatal(err)
	}
}

// operate runs an operation, which has to complete, without a topology: the controller
// observes the stack.
func (v *vnf) operate(operation api.OperationType, flags ...string) string {
	v.T.Helper()
	return v.Must(append([]string{"operate", v.id, string(operation), "--wait"}, flags...)...)
}

// instance is what the controller says of it.
func (v *vnf) instance() (i api.Instance) {
	v.T.Helper()
	if err := v.JSON(v.T.Context(), &i, "get", "instance", v.id); err != nil {
		v.T.Fatal(err)
	}
	return i
}

// nodes are those of the instance that have not left it, as the controller has them.
func (v *vnf) nodes(role api.Role) []api.Node {
	v.T.Helper()
	var list api.NodeList
	if err := json.Unmarshal([]byte(v.Must("get", "nodes", "--instance", v.id, "-o", "json")), &list); err != nil {
		v.T.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(n api.Node) bool { return n.Role != role || n.State == api.NodeRevoked })
}

// one is the only node of a role.
func (v *vnf) one(role api.Role) api.Node {
	v.T.Helper()
	list := v.nodes(role)
	if len(list) != 1 {
		v.T.Fatalf("%d nodes are %s: %+v", len(list), role, list)
	}
	return list[0]
}

// attested asserts that each node of the instance is Ready, and was attested by the nonce.
func (v *vnf) attested(count map[api.Role]int) {
	v.T.Helper()
	for role, want := range count {
		list := v.nodes(role)
		if len(list) != want {
			v.T.Errorf("%d nodes are %s, want %d", len(list), role, want)
		}
		for _, n := range list {
			if !n.Ready || n.Attestation != api.AttestedByNonce {
				v.T.Errorf("%s: ready %v, attested by %q", n.Name, n.Ready, n.Attestation)
			}
		}
	}
}

// run runs a program on a node's machine, which has to succeed.
func (v *vnf) run(n api.Node, argv ...string) string {
	v.T.Helper()
	m := v.hyper.machine(n.ID)
	if m == nil {
		v.T.Fatalf("%s has no machine", n.Name)
	}
	out, err := m.Exec(v.T.Context(), argv...)
	if err != nil {
		v.T.Fatal(errors.Join(err, fmt.Errorf("%s", out)))
	}
	return string(out)
}

// node is what the controller says of the node of a server.
func (v *vnf) node(server string) (n api.Node) {
	v.T.Helper()
	if err := v.JSON(v.T.Context(), &n, "get", "node", server); err != nil {
		v.T.Fatal(err)
	}
	return n
}

// operations are the controller's records, the oldest first.
func (v *vnf) operations() []api.Operation {
	v.T.Helper()
	var list api.OperationList
	if err := v.JSON(v.T.Context(), &list, "get", "operations", "--instance", v.id); err != nil {
		v.T.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b api.Operation) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return list.Items
}
