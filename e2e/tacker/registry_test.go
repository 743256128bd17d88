package tacker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/shared/api"
)

// registryVNF is the VNF of a private registry. Its machine is one of the lab, with systemd,
// Docker and the agent.
type registryVNF struct {
	*vnf
	lab     *lab.Lab
	machine lab.Node
}

const (
	imagePath = "Files/images/private_registry.tar"
	container = "private_registry"
	// hub stands in for Docker Hub: the machine's Docker has it as a mirror.
	hub = "10.10.0.1:5001"
)

// newRegistryVNF is one of the specification's body.
func newRegistryVNF(t *testing.T) *registryVNF {
	t.Helper()
	registry.Require(t)
	l := labtest.Open(t, lab.KindNspawn)
	if err := errors.Join(l.BuildImages(t.Context(), lab.KindNspawn), l.BuildEngines(t.Context())); err != nil {
		t.Fatal(err)
	}
	place := lab.Gateway.String() + ":8443"
	w := openTackerMachine(t, map[string]string{
		"names": fmt.Sprintf("[127.0.0.1, %s]", lab.Gateway), "advertiseUrls": "[https://" + place + "]", "agentDirectory": loopback.Bin(t),
	})
	listener, err := l.Listen(t.Context(), "tcp", place)
	if err != nil {
		t.Fatal(err)
	}
	openDoor(t, w.URL, listener)
	w.configure(map[string]string{"deadline": "300"})
	v := &registryVNF{vnf: w.readVNF("../../shared/params/testdata/private-registry.json"), lab: l}
	v.registry = v.newServer("PrivateRegistryVDU", "CP1")
	return v
}

// boot boots the machine of the server.
func (v *registryVNF) boot(userData []byte) {
	v.t.Helper()
	spec := lab.Spec{Name: "registry", ServerID: v.registry.id, UserData: userData, Engine: lab.EngineInstalled}
	var err error
	if v.machine, err = v.lab.Nspawn(v.t.Context(), spec); err == nil {
		err = v.machine.WaitCloudInit(v.t.Context())
	}
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() {
		if v.t.Failed() {
			v.t.Logf("%v", v.try("journalctl", "-u", "nodehitch*", "-u", "docker", "--no-pager", "-n", "60", "-o", "cat"))
		}
	})
	v.registry.address, v.registry.node = v.machine.Address().String(), &node{stop: func() { _ = v.machine.Destroy() }}
}

// userData is the instance's, of what Heat has by now.
func (v *registryVNF) userData() []byte {
	v.t.Helper()
	text, err := v.Hitchctl("render", "user-data", v.id)
	if err != nil {
		v.t.Fatal(err)
	}
	return text
}

// try is what a program on the machine prints, or its error.
func (v *registryVNF) try(argv ...string) string {
	out, err := v.machine.Exec(v.t.Context(), argv...)
	if err != nil {
		return fmt.Sprint(string(out), err)
	}
	return strings.TrimSpace(string(out))
}

func (v *registryVNF) run(argv ...string) string {
	v.t.Helper()
	out, err := v.machine.Exec(v.t.Context(), argv...)
	if err != nil {
		v.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// image writes the registry's image into a file, with a name, and returns what Docker calls it.
func (v *registryVNF) image(path, name string) (id string) {
	v.t.Helper()
	image, err := registry.Server(0)
	if err == nil {
		image.Tags = []string{name}
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), image.WriteFile(path))
	}
	if err == nil {
		id, err = image.ID()
	}
	if err != nil {
		v.t.Fatal(err)
	}
	return id
}

// serves asserts that the registry answers, from a container of this image.
func (v *registryVNF) serves(image string) {
	v.t.Helper()
	if got := v.run("curl", "--silent", "--show-error", "http://127.0.0.1:5000/v2/"); got != "{}" {
		v.t.Errorf("GET /v2/ says %q", got)
	}
	if got := v.run("docker", "inspect", "--format", "{{.Image}}", container); got != image {
		v.t.Errorf("the registry's image is %s, want %s", got, image)
	}
}

// looks is which container runs since when.
func (v *registryVNF) looks() string {
	v.t.Helper()
	return v.run("docker", "inspect", "--format", "{{.Id}} {{.State.StartedAt}} {{.RestartCount}}", container)
}

// again asserts that the hooks change nothing if they are called again.
func (v *registryVNF) again() {
	v.t.Helper()
	before, records := v.looks(), len(v.operations())
	v.call("instantiate_end", v.instantiateRequest(), nil).succeeds()
	v.asRecorded(records)
	v.begin("MODIFY_INFO", nil)
	v.call("modify_information_start", nil, nil).succeeds()
	v.call("modify_information_end", nil, nil).succeeds()
	v.asRecorded(records, "MODIFY_INFO START COMPLETED", "MODIFY_INFO END COMPLETED")
	if after := v.looks(); after != before {
		v.t.Errorf("the container was %s, is %s", before, after)
	}
}

// terminated ends the VNF by its hooks.
func (v *registryVNF) terminated() {
	v.t.Helper()
	v.begin("TERMINATE", nil)
	v.call("terminate_start", object{}, nil).succeeds()
	v.deleted()
	v.call("terminate_end", object{}, nil).succeeds()
	forgotten(v.vnf)
}

// TestRegistryFromThePackage is the specification's request, whose image is in the package.
func TestRegistryFromThePackage(t *testing.T) {
	results.Begin(t, suite, "registry/load", "the hooks upload the image of the VNF package, and the registry runs from it when instantiate_end returns; hooks that are called again change nothing")
	results.LongOnly(t)
	v := newRegistryVNF(t)
	image := v.image(filepath.Join(v.folder(), imagePath), "registry:latest")
	v.instantiateStart()
	v.boot(v.userData())
	v.heat("CREATE_COMPLETE")
	v.call("instantiate_end", v.instantiateRequest(), nil).succeeds()
	v.serves(image)
	v.again()
	v.terminated()
}

// TestRegistryThatIsPulled has no image in the package: Docker pulls it, once its port is free.
func TestRegistryThatIsPulled(t *testing.T) {
	results.Begin(t, suite, "registry/pull", "without an image in the package the registry is pulled; instantiate_end names the program that has its port, and the retry completes when the port is free; hooks that are called again change nothing")
	results.LongOnly(t)
	v := newRegistryVNF(t)
	delete(v.body["additionalParams"].(object)["private_registry_installation_param"].(object), "image_path")
	v.boot(nil)
	registry.Open(t, v.lab, registry.Options{Address: hub})
	image := v.publish()
	v.run("systemd-run", "--quiet", "--unit=lab-squatter", "python3", "-m", "http.server", "5000")

	v.instantiateStart()
	v.heat("CREATE_COMPLETE")
	if err := site.Inject(t.Context(), v.machine, v.userData()); err != nil {
		t.Fatal(err)
	}
	end := v.call("instantiate_end", v.instantiateRequest(), nil)
	loopback.Until(t, "the port is in use", func() bool {
		n := v.Node(v.registry.id)
		c := n.Status.Condition(api.ConditionRegistryRunning)
		return c != nil && c.Reason == api.ReasonPortInUse
	})
	_ = end.process.Process.Kill()
	_ = end.process.How()
	v.configure(map[string]string{"deadline": "2"})
	v.call("instantiate_end", v.instantiateRequest(), nil).raises("INSTANTIATE END", "PrivateRegistryVDU ("+v.registry.id+"): PortInUse", "5000", "python3")
	v.configure(map[string]string{"deadline": "300"})
	v.run("systemctl", "stop", "lab-squatter")
	v.call("instantiate_end", v.instantiateRequest(), nil).succeeds()
	v.asRecorded(0, "INSTANTIATE START COMPLETED", "INSTANTIATE END FAILED", "INSTANTIATE END COMPLETED")
	v.serves(image)
	v.again()
	v.terminated()
}

// publish puts the registry's image into the hub, and leaves none on the machine.
func (v *registryVNF) publish() (image string) {
	v.t.Helper()
	const onMachine = "/var/tmp/image.tar"
	name, file := hub+"/library/registry:latest", filepath.Join(v.t.TempDir(), "image.tar")
	image = v.image(file, name)
	content, err := os.ReadFile(file)
	daemon := fmt.Sprintf(`{"registry-mirrors": ["http://%s"], "insecure-registries": ["%[1]s"]}`, hub)
	ctx := v.t.Context()
	if err := errors.Join(err, v.machine.Push(ctx, onMachine, 0o600, content), v.machine.Push(ctx, "/etc/docker/daemon.json", 0o644, []byte(daemon))); err != nil {
		v.t.Fatal(err)
	}
	v.run("systemctl", "restart", "docker")
	v.run("docker", "load", "--quiet", "--input", onMachine)
	v.run("docker", "push", "--quiet", name)
	v.run("docker", "image", "rm", "--force", image)
	v.run("rm", onMachine)
	return image
}
