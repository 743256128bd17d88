package packaging

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/agent/config"
	"github.com/nodehitch/nodehitch/agent/machine/install"
	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// volume is where a storage server mounts its volumes.
const volume = "/volume"

// node is a machine that an agent makes a node.
type node struct {
	*machine
	// never is the condition that is never met here, "" if all are.
	never string
	site  *site.Site
	// storage is the instance. The node is its storage server or another server of it.
	storage  *site.Storage
	userData []byte
}

// newWorker announces an instance and boots its worker, without user_data.
func newWorker(t *testing.T, s *site.Site, name string, nfsClient bool) *node {
	t.Helper()
	n := announce(t, s, api.Server{ID: uuid.NewString(), Name: name}, "workerNode_CP2")
	boot, err := s.Lab.Nspawn(t.Context(), lab.Spec{Name: name, ServerID: n.storage.Others[0].ID, NFSClient: nfsClient})
	if err != nil {
		t.Fatal(err)
	}
	n.machine = &machine{Node: boot}
	n.shownOnFailure(t)
	if err := n.WaitCloudInit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

// announce tells the controller of an instance with a storage server that never boots, and
// another server.
func announce(t *testing.T, s *site.Site, server api.Server, cp string) *node {
	t.Helper()
	address := lab.Gateway.Next()
	server.ConnectionPoints = []api.ConnectionPoint{{Name: cp, Addresses: []string{address.String()}}}
	n := &node{site: s, storage: &site.Storage{
		Instance: uuid.NewString(),
		Server:   api.Server{ID: uuid.NewString(), Name: "storage"},
		Volumes:  []site.Volume{{Name: "data", Disk: lab.Disk{VolumeID: uuid.NewString()}, MountTo: volume, SizeBytes: 64 << 20}},
		Exports:  []string{volume + "/pv1"},
		Others:   []api.Server{server},
	}}
	var err error
	if n.userData, err = s.Announce(t.Context(), n.storage, address.Next(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	return n
}

// newStorage boots a storage server in a container and announces it. Its kernel may serve no
// NFS, so its volume is mounted and its exports are not served.
func newStorage(t *testing.T, s *site.Site) *node {
	t.Helper()
	n := bootStorage(t, s, s.Lab.Nspawn, lab.Spec{Name: "storage"})
	n.never = api.ConditionExportsServed
	n.run(t, "systemctl", "mask", "nfs-server")
	n.run(t, "apt-get", "update")
	n.mustInstall(t, "nfs-kernel-server")
	n.announceAgain(t)
	return n
}

// bootStorage boots a storage server with one volume, without user_data.
func bootStorage(t *testing.T, s *site.Site, boot func(context.Context, lab.Spec) (lab.Node, error), spec lab.Spec) *node {
	t.Helper()
	disk, err := s.Lab.NewDisk(uuid.NewString(), 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{site: s, storage: &site.Storage{
		Instance: uuid.NewString(),
		Server:   api.Server{ID: uuid.NewString(), Name: spec.Name, VolumeIds: []string{disk.VolumeID}},
		Volumes:  []site.Volume{{Name: "data", Disk: disk, MountTo: volume, SizeBytes: 64 << 20}},
		Exports:  []string{volume + "/pv1"},
	}}
	spec.ServerID, spec.Disks = n.storage.Server.ID, []lab.Disk{disk}
	booted, err := boot(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	n.machine = &machine{Node: booted}
	n.shownOnFailure(t)
	if err := n.WaitCloudInit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

// announceAgain tells the controller of the storage server as it is now.
func (n *node) announceAgain(t *testing.T) {
	t.Helper()
	var err error
	if n.userData, err = n.site.Announce(t.Context(), n.storage, n.Address(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
}

// configure writes the agent.yaml of the user_data and runs `nodehitch-agent install`, as
// an operator does who installs by hand.
func (n *node) configure(t *testing.T) {
	t.Helper()
	var document struct {
		WriteFiles []struct{ Path, Content string } `json:"write_files"`
	}
	if err := yaml.Unmarshal(n.userData, &document); err != nil {
		t.Fatal(err)
	}
	for _, file := range document.WriteFiles {
		if file.Path == config.DefaultFile {
			if err := n.Push(t.Context(), file.Path, 0o600, []byte(file.Content)); err != nil {
				t.Fatal(err)
			}
		}
	}
	n.run(t, install.PackagedBinary, "install")
}

// api is the node as the controller sees it.
func (n *node) api(t *testing.T) (seen api.Node, err error) {
	t.Helper()
	err = n.site.JSON(t.Context(), &seen, "get", "node", n.ServerID())
	return seen, err
}

// agent is what the agent says of itself.
func (n *node) agent(t *testing.T) (s status.Status, err error) {
	t.Helper()
	out, err := n.Exec(t.Context(), "nodehitch-agent", "status", "--output", "json")
	if err == nil {
		err = json.Unmarshal(out, &s)
	}
	return s, err
}

// running is the agent that runs: the process, its program, and the certificate by which
// the controller knows it.
type running struct {
	pid              string
	program, version string
	certificate      string
	startedAt        time.Time
}

// converged waits until an agent other than the one before has made the machine what the
// controller's document says, and has told the controller.
func (n *node) converged(t *testing.T, before running) (now running) {
	t.Helper()
	sitetest.Until(t, "the node has converged", func() error {
		s, err := n.agent(t)
		if err != nil {
			return err
		}
		if !s.StartedAt.After(before.startedAt) || s.StoppedAt != nil || s.Origin != status.FromController || !n.done(&s.Node) {
			return fmt.Errorf("it says %q", s.Summary())
		}
		seen, err := n.api(t)
		if err != nil {
			return err
		}
		if seen.Status == nil || !n.done(seen.Status) || seen.Status.Facts.AgentVersion != s.AgentVersion || seen.LastSeenAt == nil || seen.LastSeenAt.Before(s.StartedAt) {
			return fmt.Errorf("the controller has not heard of it: %+v", seen)
		}
		now = running{version: s.AgentVersion, certificate: seen.CertificateSerial, startedAt: s.StartedAt, pid: fmt.Sprint(s.PID)}
		return nil
	})
	if main := n.state(t, install.Unit, "MainPID"); main != now.pid {
		t.Errorf("the agent is process %s, the service's is %s", now.pid, main)
	}
	now.program = n.run(t, "readlink", "/proc/"+now.pid+"/exe")
	return now
}

// passed says whether an agent has made a pass since it has started, or got a document.
func passed(s *api.NodeStatus) bool {
	ready := s.Condition(api.ConditionReady)
	return ready != nil && ready.Reason != api.ReasonConverging
}

// done says whether an agent has made a pass after which every condition is met that can be.
func (n *node) done(s *api.NodeStatus) bool {
	if !passed(s) {
		return false
	}
	for _, c := range s.Conditions {
		if c.Status != api.ConditionTrue && c.Type != n.never && (c.Type != api.ConditionReady || n.never == "") {
			return false
		}
	}
	return true
}

// idle asserts that the converged machine has nothing to do, and returns how many actions
// the agents have begun since a moment of the journal, but for the condition that is never
// met.
func (n *node) idle(t *testing.T, since string) (actions int) {
	t.Helper()
	const applied = "/var/lib/nodehitch/agent/last-known-good.json"
	if n.never == "" {
		if said := n.run(t, "nodehitch-agent", "apply", "--filename", applied, "--dry-run"); !strings.Contains(said, "nothing would be done") {
			t.Errorf("a dry run on a converged machine says:\n%s", said)
		}
	}
	n.run(t, "journalctl", "--sync")
	for line := range strings.Lines(n.run(t, "journalctl", "--quiet", "--output=cat", "--unit="+install.Unit, "--after-cursor="+since)) {
		if strings.Contains(line, "event="+api.EventActionStarted) && (n.never == "" || !strings.Contains(line, "condition="+n.never)) {
			actions++
			t.Logf("%s: %s", n.Name(), line)
		}
	}
	return actions
}

// moment is the end of the machine's journal.
func (n *node) moment(t *testing.T) string {
	t.Helper()
	out := n.run(t, "journalctl", "--quiet", "--lines=1", "--show-cursor", "--output=cat")
	_, cursor, found := strings.Cut(out, "-- cursor: ")
	if !found {
		t.Fatalf("the journal's end is %q", out)
	}
	return strings.TrimSpace(cursor)
}

func (n *node) shownOnFailure(t *testing.T) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, argv := range [][]string{
			{"sh", "-c", "nodehitch-agent status 2>&1"}, {"systemctl", "status", "--no-pager", "--full", install.Unit},
			{"journalctl", "--unit=nodehitch*", "--no-pager", "--lines=40"}, {"tail", "-n", "30", "/var/log/apt/term.log"},
		} {
			out, err := n.Exec(context.WithoutCancel(t.Context()), argv...)
			t.Logf("%v: %v\n%s", argv, err, out)
		}
	})
}
