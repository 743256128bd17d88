package monitoring

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// made notes which alerts have fired and ended.
type made struct {
	mu     sync.Mutex
	alerts map[string]bool
}

func (m *made) note(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alerts[name] = true
}

// Each alert fires by its fault and ends after it; the command that it names runs.
func TestAlerts(t *testing.T) {
	c := results.Begin(t, suite, "alerts", "the shipped rules in a real Prometheus: each alert fires by its real fault, names a command that works, and ends after the fault")
	loopback.RequireRoot(t)
	rules := quick(t)
	p := startPrometheus(t, rules)
	m := &made{alerts: map[string]bool{}}
	t.Run("faults", func(t *testing.T) {
		for name, fault := range map[string]func(*testing.T, *prometheus, *made){
			"nodes": nodes, "restore": restore, "disk": disk, "connections": connections, "cloud": cloud,
			"root key": rootKey, "root": rootEnds, "replicas": replicas,
		} {
			t.Run(name, func(t *testing.T) { t.Parallel(); fault(t, p, m) })
		}
	})
	if t.Failed() {
		return
	}
	for _, r := range rulesOf(t, rules) {
		if !m.alerts[r.Alert] {
			t.Errorf("%s: no fault has made it fire and end", r.Alert)
		}
	}
	c.Figure("alerts that fired and ended", "%d", len(m.alerts))
	c.Figure("in place of the shipped times", "for: %s, windows of %s, %d limits", quickFor, quickWindow, len(limits))
	s := open(t, p, 2, loopback.Options{}) // those of the faults have ended
	s.Must("backup", filepath.Join(s.Dir, "nodehitch.tar"))
	until(t, func() string { return "the age of the backup is scraped" }, func() bool {
		return len(p.query(fmt.Sprintf(`nodehitch_backup_age_seconds{instance=%q}`, s.target))) > 0
	})
	metrics(s)
	expressions(t, c, p)
}

// metrics are what promtool accepts as those of a program.
func metrics(s *site) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.target+"/metrics", nil)
	s.must(err)
	resp, err := http.DefaultClient.Do(r)
	s.must(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	s.must(err)
	promtool(s.t, string(text), "check", "metrics")
}

// fired waits for an alert and runs the command that it names, which shows what is wrong.
func (s *site) fired(name, shows string) {
	s.t.Helper()
	a := s.fires(name)
	if command, ok := strings.CutPrefix(a.Annotations["runbook"], "hitchctl "); ok {
		if out := s.Must(strings.Fields(command)...); !strings.Contains(out, shows) {
			s.t.Errorf("%s: hitchctl %s does not show %s:\n%s", name, command, shows, out)
		}
	}
}

// over waits for the end of an alert.
func (s *site) over(m *made, name string) {
	s.t.Helper()
	s.ends(name)
	m.note(name)
}

func nodes(t *testing.T, p *prometheus, m *made) {
	s := open(t, p, 3, loopback.Options{Settings: map[string]string{"agentDirectory": loopback.Bin(t)}})
	lost, upgraded := s.workers[0], s.workers[1]
	s.silence(lost)
	s.says(s.storage, api.ConditionVolumesMounted, api.ReasonForeignData)
	if m := s.Machine(s.workers[2].ServerID); m.Enroll(t.Context(), "no.token") == nil {
		t.Error("any token enrolls")
	}
	// An operation about a server that does not come.
	absent := uuid.NewString()
	other := uuid.NewString()
	s.Put(other, loopback.StorageTopology(absent, uuid.NewString(), 1<<30))
	heal := s.Operate(other, api.OperationRequest{Operation: api.Instantiate, DeadlineSeconds: 12})
	// One node rolls the new agent back.
	rollout, err := client.Read[api.AgentRollout](s.API.UpgradeAgents(t.Context(), api.AgentUpgradeRequest{}))
	s.must(err)
	rolledBack := func(reason, about string) {
		t.Helper()
		config, err := upgraded.Config(t.Context())
		s.must(err)
		status := loopback.Converged(*config)
		status.Facts.AgentVersion = "v0.0.1"
		status.AgentUpgrade = &api.AgentUpgrade{ManagedBy: api.ManagedByController, Reason: reason, Version: about}
		s.must(upgraded.Report(t.Context(), status))
	}
	rolledBack(api.UpgradeRolledBack, rollout.Version)

	s.fired("NodehitchOperationSlow", "INSTANTIATE")
	s.fired("NodehitchEnrollmentRefused", "")
	s.fired("NodehitchRolloutStopped", "Stopped")
	s.fired("NodehitchDecisionNeeded", s.storage.ServerID[:8])
	s.fired("NodehitchConditionFalse", s.storage.ServerID[:8])
	s.fired("NodehitchNodeNotReady", s.storage.ServerID[:8])
	s.fired("NodehitchNodeLost", lost.ServerID[:8])
	if o := s.Outcome(other, heal); o.State != api.Failed {
		t.Errorf("the operation is %s", o.State)
	}
	s.fired("NodehitchOperationFailed", api.OperationID(other[:8], heal))

	s.live(lost)
	s.must1(s.storage.Converge(t.Context()))
	s.Must("agents", "upgrade")
	come := s.Machine(absent)
	s.must(come.Enroll(t.Context(), s.JoinToken(other)))
	s.must1(come.Converge(t.Context()))
	s.live(come)
	if o := s.Outcome(other, s.Operate(other, api.OperationRequest{Operation: api.Instantiate})); o.State != api.Completed {
		t.Errorf("the operation is %s: %v", o.State, o.Error)
	}
	for _, name := range []string{"OperationSlow", "EnrollmentRefused", "RolloutStopped", "DecisionNeeded", "ConditionFalse", "NodeNotReady", "NodeLost", "OperationFailed"} {
		s.over(m, "Nodehitch"+name)
	}
	if names := p.names(s.target); names != "NodehitchBackupMissing" {
		t.Errorf("all is well, and these fire: %s", names)
	}
}

func restore(t *testing.T, p *prometheus, m *made) {
	s := open(t, p, 1, loopback.Options{})
	s.fired("NodehitchBackupMissing", "")
	file := filepath.Join(s.Dir, "nodehitch.tar")
	s.Must("backup", file)
	s.over(m, "NodehitchBackupMissing")
	s.fired("NodehitchBackupTooOld", "")
	s.End(syscall.SIGTERM)
	s.fired("NodehitchControllerDown", "")
	s.Start()
	s.over(m, "NodehitchControllerDown")
	s.fires("NodehitchBackupTooOld") // a restart forgets no backup
	if firing := p.firing("NodehitchBackupMissing", s.target); len(firing) > 0 {
		t.Error("a restart has forgotten the backup")
	}
	later := filepath.Join(s.Dir, "later.tar")
	s.Must("backup", later)
	s.over(m, "NodehitchBackupTooOld")

	s.End(syscall.SIGTERM)
	cmd := exec.CommandContext(t.Context(), filepath.Join(loopback.Bin(t), "nodehitch-controller"), "restore", "--config", s.ConfigFile(), "--replace", file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.Start()
	s.fired("NodehitchRestoreUnconfirmed", "")
	s.fired("NodehitchRequestsUnavailable", "") // the machines poll
	s.Must("confirm", "instance", s.instance, "--yes")
	s.over(m, "NodehitchRestoreUnconfirmed")
	s.over(m, "NodehitchRequestsUnavailable")
}

// disk fills the controller's.
func disk(t *testing.T, p *prometheus, m *made) {
	data := t.TempDir()
	s := open(t, p, 1, loopback.Options{Settings: map[string]string{"dataDirectory": data},
		Wrap: []string{"unshare", "--mount", "--propagation", "private", "sh", "-c", `mount -t tmpfs -o size=40m,mode=700 tmpfs "$0" && exec "$@"`, data}})
	seen := filepath.Join("/proc", fmt.Sprint(s.PID()), "root", data)
	room := fill(t, seen)
	var err error
	for n := 0; n < 500 && err == nil; n++ { // free pages take some
		err = s.put(100_000)
	}
	var problem *api.Problem
	if !errors.As(err, &problem) || problem.Type != api.ProblemUnavailable {
		t.Fatalf("the disk is full, and a write is answered with %v", err)
	}
	s.fired("NodehitchStoreWriteFailing", "")
	room()
	s.must(s.put(100_000))
	s.over(m, "NodehitchStoreWriteFailing")
}

// connections take all places, with a token.
func connections(t *testing.T, p *prometheus, m *made) {
	s := open(t, p, 1, loopback.Options{Wrap: []string{"prlimit", "--nofile=160"}})
	token, err := client.Read[api.NewToken](s.API.CreateToken(t.Context(), api.TokenRequest{Name: "many", Scope: api.ScopeViewer}))
	s.must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(s.Trust().RootCertificate))
	var held []*http.Client
	release := func() {
		for _, each := range held {
			each.CloseIdleConnections()
		}
		held = nil
	}
	t.Cleanup(release)
	dial := func() error {
		each := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13}}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/agents", nil)
		s.must(err)
		r.Header.Set("Authorization", "Bearer "+token.Secret)
		resp, err := each.Do(r)
		if err != nil {
			return err
		}
		// The connection is kept only if the answer is read to its end.
		s.must1(io.Copy(io.Discard, resp.Body))
		s.must(resp.Body.Close())
		held = append(held, each)
		return nil
	}
	// A new connection may also fail by closing for one of the machines.
	until(t, func() string { return "NodehitchConnectionsRejected fires" }, func() bool {
		for dial() == nil {
			if len(held) > 160 {
				t.Fatalf("%d connections are open and none was rejected", len(held))
			}
		}
		return len(p.firing("NodehitchConnectionsRejected", s.target)) > 0
	})
	s.fired("NodehitchConnectionsRejected", "")
	release()
	s.over(m, "NodehitchConnectionsRejected")
	s.must(dial())
}

// cloud answers nothing for a while.
func cloud(t *testing.T, p *prometheus, m *made) {
	fake := openstacktest.Start(t)
	s := open(t, p, 0, loopback.Options{Settings: map[string]string{"openstack": "{cloud: fake, cloudsFile: " + fake.CloudsFile(t) + ", timeoutSeconds: 5}"}})
	stack, instance := uuid.NewString(), uuid.NewString()
	fake.Put(openstacktest.Stack{ID: stack, Name: "vnf", Status: "CREATE_COMPLETE"})
	s.Put(instance, nil)
	observe := func() error { // an END has to see the stack
		_, err := client.Read[api.Operation](s.API.PostOperation(t.Context(), instance, nil,
			api.OperationRequest{Operation: api.Instantiate, StackID: stack, Partial: true}))
		return err
	}
	fail := func(f openstacktest.Fault) {
		for _, call := range []string{openstacktest.Login, openstacktest.Stacks, openstacktest.Resources} {
			fake.Fail(call, f)
		}
	}
	fail(openstacktest.Fault{Drop: true})
	until(t, func() string { return "NodehitchCloudNotAnswering fires" }, func() bool {
		if observe() == nil {
			t.Fatal("the cloud is away, and its stack is known")
		}
		return len(p.firing("NodehitchCloudNotAnswering", s.target)) > 0
	})
	fail(openstacktest.Fault{})
	var problem *api.Problem
	if err := observe(); !errors.As(err, &problem) || problem.Type != api.ProblemInvalid { // it has no server
		t.Errorf("the cloud is back, and the stack is answered with %v", err)
	}
	s.over(m, "NodehitchCloudNotAnswering")
}
