package stacks

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/openstack"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/packaging/python"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// TestTackersDriver takes a VNF through its life by what Tacker has alone: a package, the
// spec's request, the UserData class and the hooks of the driver. Only what is Tacker's own
// is stood in for.
func TestTackersDriver(t *testing.T) {
	kubetest.Require(t)
	w := newWorld(t, nil)
	v := w.newTackerVNF("simple-storage", clusterRequest, clusterPackage)
	c := &cluster{vnf: v.vnf}
	grown := map[api.Role]int{api.RoleStorage: 1, api.RoleMaster: 1, api.RoleWorker: 3}
	for _, step := range []struct {
		name, shows string
		do          func(*results.Case)
	}{
		{"tacker-instantiate", "the package that hitchctl builds, its UserData class and the hooks of the v1 driver bring the spec's request to Ready machines, in a stack of Heat with these parameters and no topology typed", func(r *results.Case) {
			c.newKubernetes()
			began := time.Now()
			v.instantiate()
			r.Figure("from instantiate_start to the end of instantiate_end", "%.1f s", time.Since(began).Seconds())
			if i := v.instance(); i.State != api.Instantiated || i.StackID != v.stack {
				w.t.Errorf("after instantiate_end the instance is %s with the stack %s; Heat made %s", i.State, i.StackID, v.stack)
			}
			c.available()
			c.attested(whole)
		}},
		{"tacker-scale-out", "a worker that Heat adds is Ready once scale_end returns", func(*results.Case) {
			v.operation("SCALE")
			v.set(map[string]any{"worker_desired": 3})
			v.update()
			v.hook("scale_end", "scale_vnf_request", object{"type": "SCALE_OUT", "aspect_id": "worker_instance", "number_of_steps": 1})
			c.attested(grown)
		}},
		{"tacker-heal-storage", "heal_start withdraws the PersistentVolumes of the storage server that Tacker names by its VNFC, and after heal_end its successor serves them", func(*results.Case) {
			before := c.one(api.RoleStorage)
			c.run(before, "sh", "-c", "echo precious > /volume/nfs/pv1/file && sync")
			request := object{"vnfc_instance_id": []string{v.vnfc("storage_server")}}
			v.operation("HEAL")
			v.hook("heal_start", "heal_vnf_request", request)
			if out := c.kubectl("get", "pv", "-o", "name"); out != "" {
				c.t.Errorf("after heal_start there are %s", out)
			}
			v.unhealthy("storage_server")
			v.update()
			v.hook("heal_end", "heal_vnf_request", request)
			after := c.one(api.RoleStorage)
			if got := c.run(after, "cat", "/volume/nfs/pv1/file"); after.ID == before.ID || got != "precious\n" {
				c.t.Errorf("the storage server was %s, is %s, and the file holds %q", before.ID, after.ID, got)
			}
			c.available()
			c.attested(grown)
		}},
		{"tacker-heal-entire", "the hooks of a heal of the entire VNF give Tacker the parameters of the new stack, and its machines are Ready", func(*results.Case) {
			before := v.stack
			request := object{"vnfc_instance_id": []string{}}
			v.operation("HEAL")
			v.hook("heal_start", "heal_vnf_request", request)
			v.remove()
			c.newKubernetes()
			v.heat(v.instantiated)
			v.hook("heal_end", "heal_vnf_request", request)
			if i := v.instance(); i.StackID != v.stack || v.stack == before {
				c.t.Errorf("the instance has the stack %s; Heat had %s and made %s", i.StackID, before, v.stack)
			}
			c.available()
			c.attested(whole)
		}},
		{"tacker-terminate", "the hooks of TERMINATE leave no node and no instance", func(*results.Case) {
			v.operation("TERMINATE")
			v.hook("terminate_start", "terminate_vnf_request", object{})
			v.remove()
			v.stack = ""
			v.hook("terminate_end", "terminate_vnf_request", object{})
			if out, err := w.Hitchctl(w.t.Context(), "get", "instance", v.id); err == nil {
				w.t.Errorf("the controller still has the instance:\n%s", out)
			}
		}},
	} {
		ok := t.Run(step.name, func(t *testing.T) {
			r := results.Begin(t, suite, step.name, step.shows)
			w.t = t
			step.do(r)
		})
		if !ok {
			t.Fatalf("after %s the next step cannot run", step.name)
		}
	}
}

type object = map[string]any

// tackerVNF is a VNF instance as Tacker has it. Its stack is the one of vnf.
type tackerVNF struct {
	*vnf
	dir string // of Tacker's machine
	// parameters are the additionalParams of the request, instantiated those that Tacker keeps
	// with the VNF.
	parameters, instantiated object
	links                    any
}

// standin is what stands in for Tacker, and the programs that call what is ours as Tacker does.
const standin = "../tacker/testdata"

// newTackerVNF builds and onboards a package, and installs the driver with a token of its own.
func (w *world) newTackerVNF(template, request, files string) *tackerVNF {
	w.t.Helper()
	v := &tackerVNF{vnf: &vnf{world: w, id: uuid.NewString(), account: w.account}, dir: w.t.TempDir()}
	var body struct {
		AdditionalParams object
		ExtVirtualLinks  []object
	}
	w.readJSON(request, &body)
	for _, link := range body.ExtVirtualLinks {
		link["resourceId"] = w.network
	}
	v.parameters, v.links = body.AdditionalParams, body.ExtVirtualLinks
	v.parameters["storage_server_volume_size"] = 1
	v.instantiated = v.parameters

	csar := filepath.Join(v.dir, "vnf.csar")
	w.hitchctl("package", "build", "--template", template, "--files", files, "--image", openstack.Image, "--flavor", openstack.Flavor, "--file", csar)
	var created api.NewToken
	err := w.JSON(w.t.Context(), &created, "token", "create", "tacker", "--scope", "tacker")
	if err != nil {
		w.t.Fatal(err)
	}
	controller, err := w.API()
	if err != nil {
		w.t.Fatal(err)
	}
	trust, err := client.Read[api.Trust](controller.GetTrust(w.t.Context()))
	if err != nil {
		w.t.Fatal(err)
	}
	conf := fmt.Sprintf("[nodehitch]\nurls = %s\nroot_certificate = %s\npin = %s\ntoken_file = %s\ndeadline = 600\n",
		w.URL, v.path("root.pem"), trust.Pin, v.path("token"))
	err = errors.Join(unpack(csar, v.folder()), python.Write("../..", v.path("installed"), "1.2.3"),
		os.WriteFile(v.path("token"), []byte(created.Secret+"\n"), 0o600),
		os.WriteFile(v.path("root.pem"), []byte(trust.RootCertificate), 0o600),
		os.WriteFile(v.path("tacker.conf"), []byte(conf), 0o600))
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func (v *tackerVNF) path(name string) string { return filepath.Join(v.dir, name) }

// folder is the onboarded package, where the stand-in looks for it.
func (v *tackerVNF) folder() string { return filepath.Join(v.dir, "packages", "vnfd") }

func unpack(csar, folder string) error {
	archive, err := zip.OpenReader(csar)
	if err != nil {
		return err
	}
	return errors.Join(os.CopyFS(folder, archive), archive.Close())
}

// instantiate is what Tacker's v1 API does: hook, UserData class, Heat, hook.
func (v *tackerVNF) instantiate() {
	v.t.Helper()
	v.operation("INSTANTIATE")
	v.hook("instantiate_start", "instantiate_vnf_request", v.request())
	v.heat(v.parameters)
	v.hook("instantiate_end", "instantiate_vnf_request", v.request())
}

// operation makes Tacker begin another one.
func (v *tackerVNF) operation(name string) {
	v.t.Helper()
	params, err := json.Marshal(object{"additionalParams": v.parameters})
	if err == nil {
		params, err = json.Marshal(object{"occurrences": []object{{
			"id": uuid.NewString(), "vnf_instance_id": v.id, "operation_state": "PROCESSING", "operation": name, "operation_params": string(params)}}})
	}
	if err := errors.Join(err, os.WriteFile(v.path("state.json"), params, 0o600)); err != nil {
		v.t.Fatal(err)
	}
}

// heat makes the stack, from the package and what the UserData class makes of the parameters.
func (v *tackerVNF) heat(parameters object) {
	v.t.Helper()
	hot := filepath.Join(v.folder(), "BaseHOT", "simple")
	bases, err := filepath.Glob(filepath.Join(hot, "*.yaml"))
	if err != nil || len(bases) != 1 {
		v.t.Fatalf("the package has the base HOTs %v (%v), want one", bases, err)
	}
	v.template = openstack.Template{Name: "vnflcm_" + v.id, Files: map[string]string{}, TimeoutMinutes: 15}
	var base, vnfd object
	v.template.Text = v.readYAML(bases[0], &base)
	v.readYAML(filepath.Join(v.folder(), "Definitions", "nodehitch_df_simple.yaml"), &vnfd)
	nested := map[string]object{}
	paths, err := filepath.Glob(filepath.Join(hot, "nested", "*.yaml"))
	if err != nil {
		v.t.Fatal(err)
	}
	for _, path := range paths {
		var one object
		v.template.Files[filepath.Base(path)] = v.readYAML(path, &one)
		nested[filepath.Base(path)] = one
	}
	v.python(&v.template.Parameters, object{"hot": base, "nested": nested, "vnfd": vnfd, "additional_params": parameters, "ext_virtual_links": v.links},
		"user_data.py", v.folder())
	v.create()
}

func (v *tackerVNF) request() object {
	return object{"flavour_id": "simple", "additional_params": v.parameters}
}

// hook runs a hook of the installed driver, which has to raise nothing.
func (v *tackerVNF) hook(name, request string, content object) {
	v.t.Helper()
	var outcome struct {
		Error                 *struct{ Class, Message string }
		Request, Instantiated object
	}
	info := object{"instance_id": v.stack, "additional_params": v.instantiated, "vnfc_resource_info": v.vnfcs()}
	v.python(&outcome, object{"hook": name, "request_name": request, "request": content, "keywords": object{},
		"vnf_instance": object{"id": v.id, "vnfd_id": "vnfd", "vim_connection_info": []object{}, "instantiated_vnf_info": info}}, "hook.py")
	if outcome.Error != nil {
		v.t.Fatalf("%s raised %+v", name, *outcome.Error)
	}
	if outcome.Request != nil {
		v.parameters = outcome.Request
	}
	v.instantiated = outcome.Instantiated
}

// vnfcs are Tacker's of the stack, with the servers that Nova has for them now.
func (v *tackerVNF) vnfcs() []object {
	v.t.Helper()
	list := []object{}
	if v.stack == "" {
		return list
	}
	resources, err := v.account.Resources(v.t.Context(), v.stack)
	if err != nil {
		v.t.Fatal(err)
	}
	for _, r := range resources {
		if r.Type == "OS::Nova::Server" {
			list = append(list, object{"id": v.vnfc(r.Parent + r.Name), "vdu_id": r.Name, "compute_resource": object{"resource_id": r.PhysicalID}})
		}
	}
	return list
}

// vnfc is the id of the VNFC of a server by its path in the stack.
func (v *tackerVNF) vnfc(name string) string { return "vnfc-" + name }

// python runs a program of the stand-in on Tacker's machine, from where the controller is
// reached as from a server.
func (v *tackerVNF) python(answer, input any, program string, args ...string) {
	v.t.Helper()
	said, err := json.Marshal(input)
	if err != nil {
		v.t.Fatal(err)
	}
	folder, err := filepath.Abs(standin)
	if err != nil {
		v.t.Fatal(err)
	}
	cmd := v.Lab.Command(v.t.Context(), append([]string{"/usr/bin/python3", filepath.Join(folder, program)}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+v.path("installed")+":"+filepath.Join(folder, "standin"),
		"NODEHITCH_TACKER_CONF="+v.path("tacker.conf"), "TACKER_STANDIN_STATE="+v.path("state.json"), "TACKER_STANDIN_PACKAGES="+v.path("packages"))
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(said), &stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, answer)
	}
	if err != nil {
		v.t.Fatalf("%s: %v\n%s%s", program, err, out, stderr.Bytes())
	}
	if stderr.Len() > 0 {
		v.t.Logf("%s: %s", program, stderr.Bytes())
	}
}

func (v *tackerVNF) readYAML(path string, into any) string {
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
