package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/build"
	"github.com/nodehitch/nodehitch/e2e/kube/etcdtest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// replicas start controllers that share an etcd and a seal key, each with a directory of its own.
type replicas struct {
	t           *testing.T
	etcd        *etcdtest.Cluster
	sealKeyFile string
}

// openReplicas starts their etcd, and no controller yet.
func openReplicas(t *testing.T) *replicas {
	t.Helper()
	file := filepath.Join(t.TempDir(), "seal.key")
	if err := os.WriteFile(file, bytes.Repeat([]byte("k"), 32), 0o600); err != nil {
		t.Fatal(err)
	}
	return &replicas{t: t, etcd: etcdtest.Open(t, 1), sealKeyFile: file}
}

// begin starts a controller that serves only while it is the leader, unless environ says otherwise.
func (r *replicas) begin(id string, environ ...string) *process {
	r.t.Helper()
	environ = append(environ, "NODEHITCH_CONTROLLER_STORE_ETCD_ENDPOINTS="+strings.Join(r.etcd.Endpoints(), ","),
		"NODEHITCH_CONTROLLER_REPLICA_ID="+id, "NODEHITCH_CONTROLLER_SEAL_KEY_FILE="+r.sealKeyFile)
	return begin(r.t, r.t.TempDir(), nil, environ...)
}

// follow starts a controller that the others know. It hands requests to the leader unless it is the leader itself.
func (r *replicas) follow(id string) *process {
	r.t.Helper()
	address := loopback.FreeAddress(r.t)
	return r.begin(id, "NODEHITCH_CONTROLLER_REPLICA_URL=https://"+address, "NODEHITCH_CONTROLLER_REPLICA_LISTEN="+address)
}

func TestAStandbyBecomesTheLeader(t *testing.T) {
	t.Parallel()
	r := openReplicas(t)
	first := r.begin("c1")
	first.told("READY=1")
	first.says("listen=")
	if status, body := first.call("PUT", instance, spec(t)); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}

	address := loopback.FreeAddress(t)
	second := r.begin("c2", "NODEHITCH_CONTROLLER_LISTEN="+address)
	second.told("READY=1")
	second.told("STATUS=Standby; the leader is \"c1\"")
	if status, body := second.call("GET", instance, nil); status != http.StatusServiceUnavailable || !strings.Contains(body, `the leader is \"c1\"`) {
		t.Errorf("of a standby: %d %s", status, body)
	}
	if conn, err := net.Dial("tcp", address); err == nil { //nolint:noctx // refused at once
		conn.Close()
		t.Error("a standby listens")
	}

	if err := first.stop(); err != nil {
		t.Errorf("%v\n%s", err, first.logged())
	}
	second.says("listen=" + address)
	if status, body := second.call("GET", instance, nil); status != http.StatusOK {
		t.Errorf("of the new leader: %d %s", status, body)
	}
	if text := scrape(t, second.says(`metrics=(\S+)`)[1]); !strings.Contains(text, "nodehitch_replica_is_leader 1") {
		t.Error("the metrics of the leader do not say that it is")
	}
	standby := r.begin("c3", "WATCHDOG_USEC=2000000")
	standby.told("STATUS=Standby; the leader is \"c2\"")
	standby.told("WATCHDOG=1")
	if err := standby.stop(); err != nil {
		t.Errorf("a standby that is stopped: %v\n%s", err, standby.logged())
	}
	if err := second.stop(); err != nil {
		t.Error(err)
	}
}

// The leader is killed: hitchctl goes on to the follower, waits there for it to become the leader,
// and the change is made once.
func TestHitchctlWaitsForATakeover(t *testing.T) {
	t.Parallel()
	r := openReplicas(t)
	first := r.follow("c1")
	address := first.says(`listen=(\S+) .*pin=sha256:`)[1]
	follower := r.follow("c2")
	addressOfFollower := follower.says(`requests are handed to the leader.* listen=(\S+)`)[1]

	dir := t.TempDir()
	program, config, request := filepath.Join(dir, "hitchctl"), filepath.Join(dir, "hitchctl.yaml"), filepath.Join(dir, "request.json")
	build.Compile(t, program, build.Hitchctl, "devel")
	hitchctl := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = append(os.Environ(), "NODEHITCH_CONFIG="+config)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("hitchctl %v: %v\n%s\n%s", args, err, out, follower.logged())
		}
		return string(out)
	}
	text, err := io.ReadAll(spec(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(request, text, 0o600), os.WriteFile(config, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	hitchctl("--server", "unix://"+first.socket, "create", "token", "alice", "--write-context", config, "--force", "--context-server", "https://"+address+",https://"+addressOfFollower)

	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-first.exit; err == nil {
		t.Error("the leader was killed and ended well")
	}
	id := filepath.Base(instance)
	out := hitchctl("apply", id, "-f", request)
	if !strings.Contains(out, "waiting up to 30s for a controller to become the leader") || !strings.Contains(out, "instance "+id+" created") {
		t.Errorf("%s", out)
	}
	follower.says("pin=sha256:") // it is the leader
	if err := follower.stop(); err != nil {
		t.Errorf("%v\n%s", err, follower.logged())
	}
}

// Each of two controllers that know each other serves, and only one of them is the leader.
func TestAFollowerHandsRequestsToTheLeader(t *testing.T) {
	t.Parallel()
	r := openReplicas(t)
	first := r.follow("c1")
	first.says("listen=.*pin=sha256:")
	follower := r.follow("c2")
	address := follower.says(`requests are handed to the leader.* listen=(\S+)`)[1]
	if status, body := follower.call("PUT", instance, spec(t)); status != http.StatusCreated {
		t.Fatalf("at the follower: %d %s", status, body)
	}
	first.says("uid 0 of the machine of replica c2")
	_, trust := first.call("GET", "/v1/trust", nil)
	var anchor wire.Trust
	if err := json.Unmarshal([]byte(trust), &anchor); err != nil {
		t.Fatal(err)
	}
	agent, err := client.New(client.Options{BaseURL: "https://" + address, RootPEM: []byte(anchor.RootCertificate), Pin: anchor.Pin})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(agent.CloseIdle)
	if err := client.Done(agent.GetReadyz(t.Context())); err != nil {
		t.Errorf("over TLS, with a certificate of its own: %v", err)
	}
	if status, body := first.call("GET", instance, nil); status != http.StatusOK {
		t.Errorf("of the leader: %d %s", status, body)
	}

	if err := first.stop(); err != nil {
		t.Errorf("%v\n%s", err, first.logged())
	}
	follower.says("listen=" + regexp.QuoteMeta(address) + " .*pin=sha256:")
	if status, body := follower.call("GET", instance, nil); status != http.StatusOK {
		t.Errorf("once it is the leader: %d %s", status, body)
	}
	if err := client.Done(agent.GetReadyz(t.Context())); err != nil {
		t.Errorf("over TLS, once it is the leader: %v", err)
	}
	if err := follower.stop(); err != nil {
		t.Errorf("%v\n%s", err, follower.logged())
	}
}

// etcd that is gone ends the term, and so the process.
func TestALeaderWhoseTermIsOverEnds(t *testing.T) {
	t.Parallel()
	r := openReplicas(t)
	p := r.begin("c1")
	p.says("listen=")
	r.etcd.Members[0].Kill()
	if err := <-p.exit; err == nil || !strings.Contains(p.logged(), "nodehitch-controller: etcd has not confirmed in time that this controller is the leader") {
		t.Errorf("%v\n%s", err, p.logged())
	}
}

func TestWhatAReplicaRefuses(t *testing.T) {
	t.Parallel()
	r := openReplicas(t)
	running := r.begin("c1")
	running.says("listen=")
	for name, c := range map[string]struct {
		files   bool
		environ []string
		prepare func(dir string) error
		says    string
	}{
		"a store of its own": {prepare: func(dir string) error { return os.WriteFile(filepath.Join(dir, "data", "store.db"), nil, 0o600) },
			says: "there is a store of this controller alone"},
		"a data directory that is in use": {environ: []string{"NODEHITCH_CONTROLLER_DATA_DIRECTORY=" + filepath.Join(running.dir, "data")},
			says: "another controller is running with it"},
		"etcd's certificates that are not there": {environ: []string{"NODEHITCH_CONTROLLER_STORE_ETCD_ENDPOINTS=https://127.0.0.1:1", "NODEHITCH_CONTROLLER_STORE_ETCD_CA=/absent.pem"},
			says: "reading the root certificates of etcd: open /absent.pem"},
		"a socket of systemd": {files: true, says: "systemd hands over a socket called https"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
				t.Fatal(err)
			}
			if c.prepare != nil {
				if err := c.prepare(dir); err != nil {
					t.Fatal(err)
				}
			}
			environ := []string{"NODEHITCH_CONTROLLER_STORE_ETCD_ENDPOINTS=" + strings.Join(r.etcd.Endpoints(), ",")}
			var files []*os.File
			if c.files {
				f, _ := inherited(t)
				files, environ = []*os.File{f}, append(environ, "LISTEN_FDS=1", "LISTEN_FDNAMES=https")
			}
			p := begin(t, dir, files, append(environ, c.environ...)...)
			if err := <-p.exit; err == nil || !strings.Contains(p.logged(), c.says) {
				t.Errorf("%v, want %q:\n%s", err, c.says, p.logged())
			}
		})
	}
}
