package upgrade

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/build"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// machine is a worker with real systemd, and a controller that serves the agents in bin.
type machine struct {
	*site.Site
	t    *testing.T
	api  *client.Controller
	bin  string
	node lab.Node
}

const (
	agentOnMachine = "/usr/local/bin/nodehitch-agent"
	unitOnMachine  = "/etc/systemd/system/nodehitch-agent.service"
)

// boot boots a machine by user_data, with this build of the agent.
func boot(t *testing.T, old []byte) *machine {
	t.Helper()
	m := &machine{t: t, bin: t.TempDir()}
	for _, program := range []string{"nodehitch-controller", "hitchctl"} {
		content, err := os.ReadFile(filepath.Join(loopback.Bin(t), program))
		if err != nil {
			t.Fatal(err)
		}
		build.Put(t, filepath.Join(m.bin, program), content)
	}
	m.want(old)
	m.Site = sitetest.Open(t, m.bin, lab.KindNspawn)
	instance, server := uuid.NewString(), uuid.NewString()
	topology := &api.Topology{StackStatus: "CREATE_COMPLETE", Servers: []api.Server{{ID: server, Name: "worker",
		ConnectionPoints: []api.ConnectionPoint{{Name: "worker_CP", Addresses: []string{"10.10.0.13"}}}}}}
	params, err := json.Marshal(loopback.ClusterParams(""))
	if err != nil {
		t.Fatal(err)
	}
	if m.api, err = m.API(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Read[api.Instance](m.api.PutInstance(t.Context(), instance, nil, api.InstanceSpec{AdditionalParams: params, Topology: topology})); err != nil {
		t.Fatal(err)
	}
	userData, err := m.Hitchctl(t.Context(), "render", "user-data", instance)
	if err == nil {
		m.node, err = m.Lab.Nspawn(t.Context(), lab.Spec{Name: "worker", ServerID: server, UserData: userData, NFSClient: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log, err := m.node.Exec(context.WithoutCancel(t.Context()), "journalctl", "-u", "nodehitch*", "-u", "run-*", "--no-pager", "-n", "120", "-o", "short-precise")
			t.Logf("%v\n%s", err, log)
		}
	})
	return m
}

// want makes the controller serve a build, and want it if the build has its own version.
func (m *machine) want(program []byte) {
	m.t.Helper()
	build.Put(m.t, filepath.Join(m.bin, "nodehitch-agent-amd64"), program)
	if versionOf(m.t, program) != versionOf(m.t, built(m.t)) {
		return
	}
	if _, err := client.Read[api.AgentRollout](m.api.UpgradeAgents(m.t.Context(), api.AgentUpgradeRequest{})); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) do(argv ...string) string {
	m.t.Helper()
	out, err := m.node.Exec(m.t.Context(), argv...)
	if err != nil {
		m.t.Error(err)
	}
	return string(out)
}

// runs waits until the machine is Ready by an agent of the version, which is this build, and
// reports the reason.
func (m *machine) runs(version, reason string, build []byte) {
	m.t.Helper()
	sitetest.Until(m.t, fmt.Sprintf("it is Ready by %s, %s", version, reason), func() error {
		n, err := client.Read[api.Node](m.api.GetNode(m.t.Context(), m.node.ServerID(), nil))
		if err != nil {
			return err
		}
		if !n.Ready || n.Status.Facts.AgentVersion != version || n.Status.AgentUpgrade == nil || n.Status.AgentUpgrade.Reason != reason {
			return fmt.Errorf("it has reported %+v", n.Status)
		}
		there, err := m.node.Pull(m.t.Context(), agentOnMachine)
		if err == nil && !bytes.Equal(there, build) {
			err = errors.New("another build is there")
		}
		return err
	})
}

// With real systemd: builds that end at their start, and that feed the watchdog and do
// nothing, are taken back; a good one stays, and brings its unit along.
func TestUnderSystemd(t *testing.T) {
	r := results.Begin(t, suite, "under systemd", "on a machine with systemd, a build that ends at its start and one that hangs but feeds the watchdog are taken back, each is started no more than twice, and a good one stays")
	results.LongOnly(t)
	good := built(t)
	v := versionOf(t, good)
	old := build.Of(t, good, v, other(v))
	m := boot(t, old)
	m.runs(other(v), api.UpgradeUpToDate, old)
	dropIn := "[Service]\nExecStart=\nExecStart=" + agentOnMachine + " run --probation 20s\n"
	if err := m.node.Push(t.Context(), unitOnMachine+".d/probation.conf", 0o644, []byte(dropIn)); err != nil {
		t.Fatal(err)
	}
	identity := m.do("cat", "/var/lib/nodehitch/agent/identity.pem")
	m.do("systemctl", "daemon-reload")
	m.do("systemctl", "restart", "nodehitch-agent")
	for _, fault := range []string{"crash", "mute"} {
		began := m.restarts()
		m.want(badBuild(t, fault, versionOf(t, built(t))))
		m.runs(other(v), api.UpgradeRolledBack, old)
		// The switch, its two starts, and then the old build again.
		if n := m.restarts() - began; fault == "crash" && n != 3 {
			t.Errorf("systemd has restarted the agent %d times", n)
		}
		m.want(old)
	}
	m.do("sh", "-c", "echo '# of an older build' >>"+unitOnMachine)
	m.want(good)
	m.runs(v, api.UpgradeUpToDate, good)
	enrolled := m.do("sh", "-c", "journalctl -u nodehitch-agent -o cat | grep -c event=node.enrolled")
	r.Figure("enrollments", "%s", strings.TrimSpace(enrolled))
	if m.do("cat", "/var/lib/nodehitch/agent/identity.pem") != identity {
		t.Error("the identity has changed")
	}
	if unit := m.do("cat", unitOnMachine); strings.Contains(unit, "of an older build") {
		t.Error("the unit was not brought along")
	}
	if left := m.do("ls", "-A", "/usr/local/bin"); strings.Contains(left, ".nodehitch-agent.new") {
		t.Errorf("a download is left: %s", left)
	}
}

// restarts is how often systemd has restarted the agent by itself.
func (m *machine) restarts() (n int) {
	m.t.Helper()
	if _, err := fmt.Sscanf(m.do("systemctl", "show", "-p", "NRestarts", "--value", "nodehitch-agent"), "%d", &n); err != nil {
		m.t.Error(err)
	}
	return n
}
