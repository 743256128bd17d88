package loopback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/nodehitch/nodehitch/agent/config"
	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/e2e/process"
)

// AgentOptions of an agent. Config has at least what user_data has.
type AgentOptions struct {
	// Binary is the agent's; empty means the one that `make build` has made.
	Binary string
	// ServerID is what cloud-init says that the machine is.
	ServerID string
	// Config is its agent.yaml; if it names no state directory, that is the test's; the
	// log level is debug.
	Config config.Config
	// Env is added to its environment.
	Env []string
	// Wrap is put before its argv, such as [nsenter, --net=…].
	Wrap []string
	// Hosts is a file that is its /etc/hosts; empty for the host's own.
	Hosts string
}

// Agent is the real agent as a process of its own, in a mount namespace whose /run
// says which server the machine is, and whose /etc keeps what is written there to
// itself. All else is the host's, so give it a role that changes nothing else on the
// machine: a worker's, with no registry or with ones that do not answer.
type Agent struct {
	// Dir holds agent.yaml, state/, status.json and log.
	Dir string

	t       testing.TB
	o       AgentOptions
	process *process.Process
}

// onItsOwn makes /run and the changes to /etc the agent's own; $0 is its folder, the
// rest its argv. It finds the NFS client installed, and could install nothing on the
// host: apt-get does nothing but fail.
const onItsOwn = `mount -t tmpfs tmpfs /run && mkdir -p /run/cloud-init /run/own/etc /run/own/work &&
mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/own/etc,workdir=/run/own/work /etc &&
if [ "$OWN_HOSTS" ]; then mount --bind "$OWN_HOSTS" /etc/hosts; fi &&
{ cat /var/lib/dpkg/status; printf '\nPackage: nfs-common\nStatus: install ok installed\nMaintainer: the test\nArchitecture: all\nVersion: 1\nDescription: said to be there\n'; } >/run/own/status &&
mount --bind /run/own/status /var/lib/dpkg/status && mount --bind /bin/false "$(command -v apt-get)" &&
cp "$0/instance-data.json" /run/cloud-init/ && exec "$@"`

// RequireRoot skips the test if it does not run as root, or fails it if
// NODEHITCH_LAB=required.
func RequireRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	refuse := t.Skip
	if os.Getenv("NODEHITCH_LAB") == "required" {
		refuse = t.Fatal
	}
	refuse("needs root, for a mount namespace")
}

// AgentConfig is the agent.yaml that user_data of the instance has.
func (c *Controller) AgentConfig(instance string) config.Config {
	c.t.Helper()
	trust := c.Trust()
	return config.Config{ControllerURLs: trust.Urls, RootCertificate: trust.RootCertificate, Pin: trust.Pin, JoinToken: c.JoinToken(instance)}
}

// StartAgent starts an agent, which ends with the test.
func StartAgent(t testing.TB, o AgentOptions) *Agent {
	t.Helper()
	a := NewAgent(t, o)
	t.Cleanup(func() { _ = a.End(syscall.SIGTERM) }) // how it ended is the test's matter
	a.Start()
	return a
}

// NewAgent writes the files of an agent and starts none. Its log is shown when the test has
// failed.
func NewAgent(t testing.TB, o AgentOptions) *Agent {
	t.Helper()
	RequireRoot(t)
	if o.Binary == "" {
		o.Binary = filepath.Join(Bin(t), "nodehitch-agent-amd64")
	}
	a := &Agent{Dir: t.TempDir(), t: t, o: o}
	if a.o.Config.StateDirectory == "" {
		a.o.Config.StateDirectory = filepath.Join(a.Dir, "state")
	}
	if a.o.Config.Log.Level == "" {
		a.o.Config.Log.Level = "debug"
	}
	text, err := json.Marshal(a.o.Config)
	if err != nil {
		t.Fatal(err)
	}
	instance := fmt.Sprintf(`{"v1":{"instance_id":%q}}`, o.ServerID)
	if err := errors.Join(
		os.WriteFile(filepath.Join(a.Dir, "agent.yaml"), text, 0o600),
		os.WriteFile(filepath.Join(a.Dir, "instance-data.json"), []byte(instance), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log := a.Log()
			t.Logf("the agent of %s has logged:\n%s", o.ServerID, log[max(0, len(log)-10000):])
		}
	})
	return a
}

// Binary is the agent's program.
func (a *Agent) Binary() string { return a.o.Binary }

// OnItsOwn is an argv that runs a program of the agent in a mount namespace as described
// above.
func (a *Agent) OnItsOwn(argv []string) []string {
	return append(append(slices.Clone(a.o.Wrap), "unshare", "--mount", "--propagation", "private", "sh", "-c", onItsOwn, a.Dir), argv...)
}

// RunFlags are the flags of the agent's `run`.
func (a *Agent) RunFlags() []string {
	return []string{"--config", filepath.Join(a.Dir, "agent.yaml"), "--status-file", a.StatusFile(), "--lock-file", filepath.Join(a.Dir, "lock")}
}

// Start starts it again after End.
func (a *Agent) Start() {
	a.t.Helper()
	log, err := os.OpenFile(filepath.Join(a.Dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		a.t.Fatal(err)
	}
	defer log.Close()
	argv := a.OnItsOwn(append([]string{a.o.Binary, "run"}, a.RunFlags()...))
	cmd := exec.CommandContext(context.Background(), argv[0], argv[1:]...)
	cmd.Env = append(append(os.Environ(), a.o.Env...), "OWN_HOSTS="+a.o.Hosts)
	cmd.Stdout, cmd.Stderr = log, log
	if a.process, err = process.Start(cmd); err != nil {
		a.t.Fatal(err)
	}
}

// End ends it with a signal and waits until it has gone; it need not run any more.
// The error is how it ended.
func (a *Agent) End(signal syscall.Signal) error {
	if a.process == nil {
		return nil
	}
	_ = a.process.Process.Signal(signal)
	return a.Wait()
}

// Wait waits until it has ended, and returns how.
func (a *Agent) Wait() error {
	p := a.process
	<-p.Ended()
	a.process = nil
	return p.How()
}

// PID of the running process.
func (a *Agent) PID() int { return a.process.Process.Pid }

// StatusFile is where it keeps its status.
func (a *Agent) StatusFile() string { return filepath.Join(a.Dir, "status.json") }

// State is its state directory.
func (a *Agent) State() string { return a.o.Config.StateDirectory }

// Status is what its status file says; the zero value if there is none yet.
func (a *Agent) Status() *status.Status {
	s, _ := status.Load(a.StatusFile())
	return &s
}

// Log is what it has logged, in all its lives.
func (a *Agent) Log() []byte {
	log, _ := os.ReadFile(filepath.Join(a.Dir, "log"))
	return log
}

// Ended reports whether it has ended.
func (a *Agent) Ended() bool {
	if a.process == nil {
		return true
	}
	select {
	case <-a.process.Ended():
		return true
	default:
		return false
	}
}
