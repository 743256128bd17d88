package registries

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

const suite = "registries"

// The requests of the spec, and the files of the VNF packages that they name.
const (
	registryBody = "../../shared/params/testdata/private-registry.json"
	clusterBody  = "../../shared/params/testdata/registry-connections.json"

	imagePath  = "Files/images/private_registry.tar"
	caPath     = "Files/registries/ca.crt"
	scriptPath = "Scripts/install_k8s_cluster.sh"
)

// The network of the spec's requests, beside the lab's own.
var (
	registryAddress  = netip.MustParsePrefix("192.168.0.10/24") // serves 192.168.0.10:5000
	registryAddress2 = netip.MustParsePrefix("192.168.0.30/24") // of the VM that replaces it
	secureAddress    = netip.MustParsePrefix("192.168.0.20/24") // serves registry.example.com
	masterAddress    = netip.MustParsePrefix("192.168.0.11/24")
	workerAddress    = netip.MustParsePrefix("192.168.0.12/24")
)

// world is a controller in a lab that has the network of the requests.
type world struct {
	t   *testing.T
	lab *lab.Lab
	*site.Site
	api *client.Controller
	// ca vouches for the registries with TLS.
	ca *registry.Authority
}

func newWorld(t *testing.T) *world {
	t.Helper()
	registry.Require(t)
	s := sitetest.Open(t, bin(), lab.KindNspawn)
	w := &world{t: t, lab: s.Lab, Site: s, ca: registry.NewAuthority(t, "the test's authority", time.Now().Add(time.Hour))}
	var err error
	if w.api, err = s.API(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.lab.BuildEngines(t.Context()), w.lab.AddAddress(t.Context(), secureAddress)); err != nil {
		t.Fatal(err)
	}
	return w
}

// bin is the folder of the built binaries, which NODEHITCH_BIN may name.
func bin() string {
	if named := os.Getenv("NODEHITCH_BIN"); named != "" {
		return named
	}
	return "../../bin"
}

// vnf is an instance.
type vnf struct {
	*world
	id       string
	params   map[string]any // additionalParams
	topology api.Topology
	// controllerKiller, if there is one, kills while operations are in progress.
	controllerKiller *controllerKiller
}

// newVNF makes an instance of a request of the spec. The controller does not know it yet.
func (w *world) newVNF(body string) *vnf {
	w.t.Helper()
	data, err := os.ReadFile(body)
	if err != nil {
		w.t.Fatal(err)
	}
	var request struct {
		AdditionalParams map[string]any `json:"additionalParams"`
	}
	if err := json.Unmarshal(data, &request); err != nil {
		w.t.Fatal(err)
	}
	return &vnf{world: w, id: uuid.NewString(), params: request.AdditionalParams, topology: api.Topology{StackStatus: "CREATE_COMPLETE"}}
}

// section is the part of the parameters that has a VNF's own, by its name.
func (v *vnf) section(name string) map[string]any { return v.params[name].(map[string]any) }

// connect replaces the registries that the cluster is connected to.
func (v *vnf) connect(connections ...map[string]any) {
	v.section("k8s_cluster_installation_param")["private_registry_connection_info"] = append([]map[string]any{}, connections...)
}

// addServer adds a server to the topology, on a connection point.
func (v *vnf) addServer(name, cp string, addresses ...netip.Prefix) api.Server {
	s := api.Server{ID: uuid.NewString(), Name: name, VnfcInstanceID: uuid.NewString(), ConnectionPoints: []api.ConnectionPoint{{Name: cp}}}
	for _, a := range addresses {
		s.ConnectionPoints[0].Addresses = append(s.ConnectionPoints[0].Addresses, a.Addr().String())
	}
	v.topology.Servers = append(v.topology.Servers, s)
	return s
}

// upload puts a file of the VNF package.
func (v *vnf) upload(path string, content []byte) {
	v.t.Helper()
	_, err := client.Read[api.PackageFile](v.api.PutFileWithBody(v.t.Context(), v.id, path, nil,
		"application/octet-stream", strings.NewReader(string(content))))
	if err != nil {
		v.t.Fatal(err)
	}
}

// put gives the controller the parameters and the topology as they are now.
func (v *vnf) put() {
	v.t.Helper()
	if err := v.tryPut(); err != nil {
		v.t.Fatal(err)
	}
}

func (v *vnf) tryPut() error {
	params, err := json.Marshal(v.params)
	if err != nil {
		return err
	}
	_, err = client.Read[api.Instance](v.api.PutInstance(v.t.Context(), v.id, nil, api.InstanceSpec{AdditionalParams: params, Topology: &v.topology}))
	return err
}

// operate runs an operation to its end; there need not be all roles.
func (v *vnf) operate(o api.OperationRequest) *api.Operation {
	v.t.Helper()
	o.Partial, o.Topology = true, &v.topology
	op, err := client.Read[api.Operation](v.api.PostOperation(v.t.Context(), v.id, nil, o))
	if err != nil {
		v.t.Fatal(err)
	}
	v.until("the operation ends", func() error {
		if op, err = client.Read[api.Operation](v.api.GetOperation(v.t.Context(), v.id, op.Sequence, nil)); err != nil {
			return err
		}
		if op.State == api.Processing {
			return errors.Join(fmt.Errorf("it is %+v", op), v.controllerKiller.observe(v, op))
		}
		return nil
	})
	if op.State != api.Completed {
		v.t.Fatalf("%s %s: %+v", o.Operation, op.State, op)
	}
	return op
}

func (v *vnf) userData() []byte {
	v.t.Helper()
	data, err := v.Hitchctl(v.t.Context(), "render", "user-data", v.id)
	if err != nil {
		v.t.Fatal(err)
	}
	return data
}

// until calls wrong until it returns no error, and fails the test in the end.
func (w *world) until(what string, wrong func() error) {
	w.t.Helper()
	sitetest.Until(w.t, what, wrong)
}

// folder writes files into a folder of the test's, which is a VNF package.
func folder(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for path, content := range files {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
