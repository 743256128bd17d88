package registries

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// server is a registry VNF whose machine the cases disturb.
type server struct {
	*vnf
	*machine
}

const container = "private_registry"

// newServer boots a registry VNF with Docker installed.
func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{vnf: newWorld(t).newVNF(registryBody)}
	s.Draw("registry", "CP1", "", registryAddress.Addr())
	s.begin()
	return s
}

// begin boots the server of the topology and waits until the registry runs.
func (s *server) begin(disks ...lab.Disk) {
	s.T.Helper()
	s.uploadImage(0)
	s.put()
	spec := s.spec(s.Topology.Servers[0], lab.EngineInstalled, registryAddress)
	spec.Disks = disks
	s.machine = s.boot(spec)[0]
	s.operate(api.Instantiate)
	s.runs()
}

// uploadImage puts the registry's image, with so many bytes more, into the package.
func (s *server) uploadImage(padding int) (size int) {
	s.T.Helper()
	image, err := registry.Server(padding)
	if err != nil {
		s.T.Fatal(err)
	}
	var file bytes.Buffer
	if err := image.Write(&file); err != nil {
		s.T.Fatal(err)
	}
	s.upload(imagePath, file.Bytes())
	return file.Len()
}

// runs waits until the registry runs as the controller has it, and answers.
func (s *server) runs() {
	s.T.Helper()
	s.Says(api.ConditionRegistryRunning, api.ReasonRunning)
	s.answers("5000")
}

func (s *server) answers(port string) {
	s.T.Helper()
	s.Until("the registry answers", func() error {
		if out, err := s.Try("curl", "--silent", "--show-error", "http://"+registryAddress.Addr().String()+":"+port+"/v2/"); out != "{}" {
			return fmt.Errorf("GET /v2/ says %q, %w", out, err)
		}
		return nil
	})
}

// pushed is an image that the registry has taken.
type pushed struct {
	name string
	// id is the digest of what is in it, and size that many bytes.
	id   string
	size int64
}

// push puts a new image into the registry.
func (s *server) push() pushed {
	s.T.Helper()
	image := pushed{name: s.pushNew("127.0.0.1:5000")}
	if _, err := fmt.Sscan(s.Run("docker", "image", "inspect", "--format", "{{.Id}} {{.Size}}", image.name), &image.id, &image.size); err != nil {
		s.T.Fatal(err)
	}
	return image
}

// gone is what Docker says of an image that is incomplete in the registry.
var gone = regexp.MustCompile("manifest unknown|unknown blob|blob unknown|verification failed")

// holds pulls an image that was pushed before, and counts it as lost if it is incomplete or
// another one.
func (s *server) holds(r *results.Case, image pushed, port string) {
	s.T.Helper()
	_, rest, _ := strings.Cut(image.name, "/")
	name := "127.0.0.1:" + port + "/" + rest
	s.Run("docker", "image", "rm", "--force", image.id) // with all its names, if it has any
	if _, err := s.Try("docker", "image", "inspect", image.id); err == nil {
		s.T.Fatalf("Docker has %s itself: a pull shows nothing", name)
	}
	id := ""
	_, err := s.Try("docker", "pull", "--quiet", name)
	if err == nil {
		id = s.Run("docker", "image", "inspect", "--format", "{{.Id}}", name)
	}
	switch {
	case id == image.id:
		r.Lost(0)
	case err == nil || gone.MatchString(err.Error()):
		r.Lost(image.size)
		s.T.Errorf("the registry has %s as %q, want %s: %v", name, id, image.id, err)
	default:
		s.T.Errorf("pulling %s: %v", name, err)
	}
}

func (s *server) containerID() string {
	return s.Run("docker", "inspect", "--format", "{{.Id}}", container)
}

// TestRegistryVNF are the cases of a registry VNF, one after the other on the same
// machine: each ends with the registry running.
func TestRegistryVNF(t *testing.T) {
	var s *server
	if results.Full() {
		s = newServer(t)
	}
	for _, test := range []struct {
		name, shows string
		run         func(*server, *results.Case)
	}{
		{"stopped", "a container that was stopped, or killed, is started again", (*server).stopped},
		{"removed", "a container that was removed is created again, with its data", (*server).removed},
		{"rebooted", "after a reboot or a power cut the registry answers again, without a controller", (*server).rebooted},
		{"other-port", "after a change of the port the container is recreated, with its data", (*server).otherPort},
		{"other-image", "after a change of the image the container is recreated, with its data", (*server).otherImage},
		{"other-directory", "after a change of the directory the container is recreated; the old directory keeps its data", (*server).otherDirectory},
		{"name-taken", "a foreign container with that name is reported as NameTaken and left alone", (*server).nameTaken},
		{"port-in-use", "a port that another program uses is reported as PortInUse; when it is free the registry starts", (*server).portInUse},
		{"start-cut-off", "the power fails in the start of the container: Docker keeps its port for no container, and the registry runs again", (*server).startCutOff},
		{"no-registry-image", "an image file without the image registry is refused or reported as ImageNotFound; the right one runs", (*server).noRegistryImage},
		{"disk-full", "a full disk while the image is loaded is reported; with free space the registry starts", (*server).diskFull},
		{"download-cut", "the controller is killed during the download of an image: the agent resumes where it stopped", (*server).downloadCut},
		{"transfer", "the speed of fetching an image file", (*server).transfer},
		{"killed-registry", "the agent, killed at the start and the end of every action, converges", (*server).killed},
		{"healed", "a new VM with a new id gets the same registry; the old one's certificate is refused", (*server).healed},
		{"terminated", "after terminate and delete the controller has neither node nor file", (*server).terminated},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := results.Begin(t, suite, test.name, test.shows)
			results.LongOnly(t)
			defer s.During(t)()
			test.run(s, r)
		})
	}
}

func (s *server) stopped(*results.Case) {
	for _, how := range []string{"stop", "kill"} {
		s.Run("docker", how, container)
		s.answers("5000")
	}
	s.runs()
	s.stays()
}

func (s *server) removed(r *results.Case) {
	image, before := s.push(), s.containerID()
	s.Run("docker", "rm", "--force", container)
	s.answers("5000")
	if s.containerID() == before {
		s.T.Error("it is the same container")
	}
	s.holds(r, image, "5000")
	s.runs()
}

func (s *server) rebooted(r *results.Case) {
	image := s.push()
	if err := s.Site.Stop(); err != nil {
		s.T.Fatal(err)
	}
	for _, how := range []func(context.Context) error{s.Reboot, func(ctx context.Context) error {
		if err := s.PowerCut(ctx); err != nil {
			return err
		}
		return s.Start(ctx)
	}} {
		if err := how(s.T.Context()); err != nil {
			s.T.Fatal(err)
		}
		s.answers("5000")
		s.holds(r, image, "5000")
	}
	if err := s.Site.Start(s.T.Context()); err != nil {
		s.T.Fatal(err)
	}
	s.runs()
}

func (s *server) otherPort(r *results.Case) {
	image := s.push()
	p := s.section("private_registry_installation_param")
	p["port_no"] = "5001"
	s.put()
	s.Says(api.ConditionRegistryRunning, api.ReasonRunning)
	s.answers("5001")
	s.holds(r, image, "5001")
	if out, err := s.Try("curl", "--silent", "http://127.0.0.1:5000/v2/"); err == nil {
		s.T.Errorf("the old port still answers: %s", out)
	}
	s.stays()
	delete(p, "port_no")
	s.put()
	s.runs()
	s.holds(r, image, "5000")
}

func (s *server) otherImage(r *results.Case) {
	image, before := s.push(), s.Run("docker", "inspect", "--format", "{{.Image}}", container)
	s.uploadImage(4096)
	s.put()
	s.runs()
	if after := s.Run("docker", "inspect", "--format", "{{.Image}}", container); after == before {
		s.T.Errorf("it runs the old image, %s", after)
	}
	s.holds(r, image, "5000")
	s.stays()
}

func (s *server) otherDirectory(r *results.Case) {
	image := s.push()
	p := s.section("private_registry_installation_param")
	p["ssh_username"] = "debian"
	s.put()
	s.runs()
	if out := s.Run("docker", "inspect", "--format", "{{.HostConfig.Binds}}{{.HostConfig.Mounts}}", container); !strings.Contains(out, "/home/debian/registry") {
		s.T.Errorf("the container has %s", out)
	}
	p["ssh_username"] = "ubuntu"
	s.put()
	s.runs()
	s.holds(r, image, "5000")
}

func (s *server) nameTaken(*results.Case) {
	s.Run("systemctl", "stop", "nodehitch-agent")
	s.Run("docker", "rm", "--force", container)
	s.Run("docker", "run", "--detach", "--name", container, "registry:latest")
	foreign := s.containerID()
	s.Run("systemctl", "start", "nodehitch-agent")
	s.Says(api.ConditionRegistryRunning, api.ReasonNameTaken)
	if s.containerID() != foreign {
		s.T.Error("a foreign container was replaced")
	}
	s.Run("docker", "rm", "--force", container)
	s.runs()
}

func (s *server) portInUse(*results.Case) {
	s.Run("systemctl", "stop", "nodehitch-agent")
	s.Run("docker", "rm", "--force", container)
	s.Run("systemd-run", "--quiet", "--unit=lab-squatter", "python3", "-m", "http.server", "5000")
	s.Until("the other program listens", func() error {
		_, err := s.Try("curl", "--silent", "http://127.0.0.1:5000/")
		return err
	})
	s.Run("systemctl", "start", "nodehitch-agent")
	message := s.Says(api.ConditionRegistryRunning, api.ReasonPortInUse)
	if !strings.Contains(message, "5000") || !strings.Contains(message, "python3") {
		s.T.Errorf("the message names neither port nor program: %s", message)
	}
	s.Run("systemctl", "stop", "lab-squatter")
	s.runs()
}

// hangingRunc takes the place of runc, and creates no container until the machine's next boot.
const hangingRunc = `#!/bin/sh
case " $* " in *" create "*) if [ -e /run/lab-hangs ]; then touch /run/lab-hanging; exec sleep infinity; fi;; esac
exec /usr/sbin/runc.real "$@"
`

func (s *server) startCutOff(r *results.Case) {
	image := s.push()
	s.Run("mv", "/usr/sbin/runc", "/usr/sbin/runc.real")
	if err := s.Push(s.T.Context(), "/usr/sbin/runc", 0o755, []byte(hangingRunc)); err != nil {
		s.T.Fatal(err)
	}
	s.Run("touch", "/run/lab-hangs")
	s.Run("docker", "rm", "--force", container)
	s.Until("the container is being started", func() error {
		_, err := s.Try("test", "-e", "/run/lab-hanging")
		return err
	})
	if err := errors.Join(s.PowerCut(s.T.Context()), s.Start(s.T.Context())); err != nil {
		s.T.Fatal(err)
	}
	s.answers("5000")
	s.holds(r, image, "5000")
	s.runs()
	if log := s.Run("journalctl", "--boot", "--unit", "nodehitch-agent", "--output", "cat"); !strings.Contains(log, "restart docker.service, which uses port 5000 for no container") {
		s.T.Error("Docker has not kept the port, so that the case shows nothing")
	}
	s.Run("mv", "/usr/sbin/runc.real", "/usr/sbin/runc")
}

func (s *server) noRegistryImage(*results.Case) {
	var other bytes.Buffer
	if err := registry.Small("something-else:latest", 4096, 1).Write(&other); err != nil {
		s.T.Fatal(err)
	}
	_, err := client.Read[api.PackageFile](s.api.PutFileWithBody(s.T.Context(), s.ID, imagePath, nil, "application/octet-stream", &other))
	s.T.Logf("the upload: %v", err)
	if err := s.tryPut(); err != nil {
		s.T.Logf("the PUT is refused: %v", err)
	}
	s.Until("controller or agent reports it", func() error {
		n, err := s.AsKnown()
		if err != nil {
			return err
		}
		c := n.Status.Condition(api.ConditionRegistryRunning)
		if len(n.Withheld) > 0 || c != nil && c.Reason == api.ReasonImageNotFound {
			s.T.Logf("withheld %v, condition %+v", n.Withheld, c)
			return nil
		}
		return fmt.Errorf("withheld %v, condition %+v", n.Withheld, c)
	})
	s.answers("5000") // the old container keeps running
	s.uploadImage(0)
	s.put()
	s.runs()
}

func (s *server) terminated(*results.Case) {
	data := filepath.Join(s.Lab.Dir(), "controller", "data")
	if stored(s.T, data) == 0 {
		s.T.Fatal("the package's file is not where this test looks for it")
	}
	s.operate(api.Terminate, sitetest.PhaseStart)
	s.operate(api.Terminate)
	if _, err := s.Hitchctl(s.T.Context(), "delete", "instance", s.ID); err != nil {
		s.T.Error(err)
	}
	if n, err := s.AsKnown(); err == nil {
		s.T.Errorf("the controller still has the node: %+v", n)
	}
	s.Until("no file of the package is left", func() error {
		if n := stored(s.T, data); n > 0 {
			return fmt.Errorf("%d large files", n)
		}
		return nil
	})
}

// stored is how many files there are that are larger than any but a package's image.
func stored(t *testing.T, dir string) (n int) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Ext(path) == ".db" {
			return err
		}
		if info, err := d.Info(); err == nil && info.Size() > 10<<20 {
			n++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// asks makes a request to the controller as the agent of the machine, and returns the
// status of the answer.
func (m *machine) asks(method, path, body string) (status int) {
	m.W.T.Helper()
	agent, err := m.status()
	if err != nil {
		m.W.T.Fatal(err)
	}
	out := m.Run("curl", "--silent", "--show-error", "--insecure", "--cert", "/var/lib/nodehitch/agent/identity.pem",
		"--request", method, "--header", "Content-Type: application/json", "--data", body,
		"--output", "/dev/null", "--write-out", "%{http_code}", agent.Controller.URL+path)
	if status, err = strconv.Atoi(out); err != nil {
		m.W.T.Fatal(err)
	}
	return status
}

// shutOut counts the controller's answers to a revoked machine.
func (m *machine) shutOut(r *results.Case) {
	m.W.T.Helper()
	report, err := json.Marshal(api.NodeStatus{Epoch: 1, ObservedGeneration: 1, ObservedDigest: "x", Conditions: []api.Condition{}})
	if err != nil {
		m.W.T.Fatal(err)
	}
	requests := [][]string{
		{http.MethodGet, "/v1/node/config", ""},
		{http.MethodPut, "/v1/node/status", string(report)},
	}
	for _, q := range requests {
		switch status := m.asks(q[0], q[1], q[2]); {
		case status == http.StatusForbidden:
			r.Unauthorised(0)
		case status < 400:
			r.Unauthorised(1)
			m.W.T.Errorf("the old machine is answered %d by %s %s", status, q[0], q[1])
		default:
			m.W.T.Errorf("%s %s of the old machine is answered %d, want %d", q[0], q[1], status, http.StatusForbidden)
		}
	}
	r.Figure("requests that had to be refused", "%d", len(requests))
	if m.W.T.Failed() {
		m.W.T.FailNow()
	}
}

// healed: the old machine still runs, as after a suspend, and makes requests.
func (s *server) healed(r *results.Case) {
	old := s.machine
	if status := old.asks(http.MethodGet, "/v1/node/config", ""); status != http.StatusOK {
		s.T.Fatalf("before the heal its configuration is answered %d", status)
	}
	s.machine = s.replace(s.machine, registryAddress2)
	s.Says(api.ConditionRegistryRunning, api.ReasonRunning)
	s.Run("curl", "--silent", "--fail", "http://127.0.0.1:5000/v2/")
	old.shutOut(r)
	s.Until("the old machine knows it", func() error {
		n, err := old.AsKnown()
		if err == nil && n.State != api.NodeRevoked {
			return fmt.Errorf("the controller has it as %s", n.State)
		}
		out, err := old.Try("nodehitch-agent", "status")
		if err != nil || !strings.Contains(out, "revoked") {
			return fmt.Errorf("it says (%w)\n%s", err, out)
		}
		return nil
	})
	s.Destroy(old.Machine)
}

// TestControllerKilled takes a registry VNF through its operations while the controller
// is killed again and again. TERMINATE is one transaction: there is no middle of it.
func TestControllerKilled(t *testing.T) {
	r := results.Begin(t, suite, "controller-killed", "instantiate and heal of a registry VNF, the controller killed whenever the node makes progress")
	results.LongOnly(t)
	s := &server{vnf: newWorld(t).newVNF(registryBody)}
	s.Kills.Controller = true
	s.Draw("registry", "CP1", "", registryAddress.Addr())
	for _, operation := range []struct {
		name string
		run  func()
	}{
		{"INSTANTIATE", func() { s.begin() }},
		{"HEAL", func() { s.healed(r) }},
	} {
		operation.run()
		s.KillsAreOver(r, "killed in "+operation.name, 2)
	}
	s.stays()
	s.terminated(r)
}

const volumeSize = 1 << 30

// The registry's data on a Cinder volume outlives the VM.
func TestVolumeOfARegistry(t *testing.T) {
	r := results.Begin(t, suite, "volume-healed", "a registry with its data on a Cinder volume keeps its images through a heal")
	results.LongOnly(t)
	s := &server{vnf: newWorld(t).newVNF(registryBody)}
	disk, err := s.Lab.NewDisk(uuid.NewString(), volumeSize)
	if err != nil {
		t.Fatal(err)
	}
	p := s.section("private_registry_installation_param")
	p["volume_resource_id"], p["mount_to"] = "registry_volume", "/srv/registry"
	s.Draw("registry", "CP1", "", registryAddress.Addr())
	s.Topology.Servers[0].VolumeIds = []string{disk.VolumeID}
	s.Topology.Volumes = []api.TopologyVolume{{ResourceID: "registry_volume", ID: disk.VolumeID, SizeBytes: volumeSize}}
	s.begin(disk)
	image := s.push()
	s.stays()
	s.Destroy(s.Machine)
	s.machine = s.replace(s.machine, registryAddress2, disk)
	s.Says(api.ConditionRegistryRunning, api.ReasonRunning)
	s.Run("curl", "--silent", "--fail", "http://127.0.0.1:5000/v2/")
	s.holds(r, image, "5000")
	s.stays()
}
