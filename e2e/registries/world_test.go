package registries

import (
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/registry"
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

// world is a lab that has the network of the requests.
type world struct {
	*sitetest.World
	api *client.Controller
	// ca vouches for the registries with TLS.
	ca *registry.Authority
}

func newWorld(t *testing.T) *world {
	t.Helper()
	registry.Require(t)
	w := &world{World: sitetest.NewWorld(t, lab.KindNspawn), ca: registry.NewAuthority(t, "the test's authority", time.Now().Add(time.Hour))}
	var err error
	if w.api, err = w.API(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Lab.BuildEngines(t.Context()), w.Lab.AddAddress(t.Context(), secureAddress)); err != nil {
		t.Fatal(err)
	}
	return w
}

// vnf is an instance whose parameters the cases change.
type vnf struct {
	*world
	*sitetest.VNF
	params map[string]any // additionalParams
}

// newVNF makes an instance of a request of the spec. The controller does not know it yet.
func (w *world) newVNF(body string) *vnf {
	w.T.Helper()
	data, err := os.ReadFile(body)
	if err != nil {
		w.T.Fatal(err)
	}
	var request struct {
		AdditionalParams map[string]any `json:"additionalParams"`
	}
	if err := json.Unmarshal(data, &request); err != nil {
		w.T.Fatal(err)
	}
	return &vnf{w, w.NewVNF(), request.AdditionalParams}
}

// section is the part of the parameters that has a VNF's own, by its name.
func (v *vnf) section(name string) map[string]any { return v.params[name].(map[string]any) }

// connect replaces the registries that the cluster is connected to.
func (v *vnf) connect(connections ...map[string]any) {
	v.section("k8s_cluster_installation_param")["private_registry_connection_info"] = append([]map[string]any{}, connections...)
}

// upload puts a file of the VNF package.
func (v *vnf) upload(path string, content []byte) {
	v.T.Helper()
	_, err := client.Read[api.PackageFile](v.api.PutFileWithBody(v.T.Context(), v.ID, path, nil,
		"application/octet-stream", strings.NewReader(string(content))))
	if err != nil {
		v.T.Fatal(err)
	}
}

// put gives the controller the parameters and the topology as they are now.
func (v *vnf) put() {
	v.T.Helper()
	if err := v.tryPut(); err != nil {
		v.T.Fatal(err)
	}
}

func (v *vnf) tryPut() error {
	params, err := json.Marshal(v.params)
	if err != nil {
		return err
	}
	_, err = client.Read[api.Instance](v.api.PutInstance(v.T.Context(), v.ID, nil, api.InstanceSpec{AdditionalParams: params, Topology: &v.Topology}))
	return err
}

// operate runs an operation that has to complete; there need not be all roles.
func (v *vnf) operate(operation api.OperationType, flags ...string) {
	v.T.Helper()
	v.Operate(operation, append(flags, "--partial")...)
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
