package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	wire "github.com/nodehitch/nodehitch/shared/api"
)

// asController makes the test binary the controller itself.
const asController = "NODEHITCH_TEST_AS_CONTROLLER"

func TestMain(m *testing.M) {
	if os.Getenv(asController) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// process is a controller as systemd would start it.
type process struct {
	t      *testing.T
	dir    string
	cmd    *exec.Cmd
	socket string
	notify *net.UnixConn
	log    bytes.Buffer
	more   chan struct{} // closed and made anew whenever the log grows
	mu     sync.Mutex
	exit   chan error
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.more)
	p.more = make(chan struct{})
	return p.log.Write(b)
}

// says waits until the log has a match of the pattern, and returns its groups.
func (p *process) says(pattern string) []string {
	p.t.Helper()
	expression, limit := regexp.MustCompile(pattern), time.After(20*time.Second)
	for {
		p.mu.Lock()
		found, more := expression.FindStringSubmatch(p.log.String()), p.more
		p.mu.Unlock()
		if found != nil {
			return found
		}
		select {
		case <-more:
		case <-limit:
			p.t.Fatalf("the log does not say %s:\n%s", pattern, p.logged())
		}
	}
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// begin starts a controller in dir; environ may say more.
func begin(t *testing.T, dir string, files []*os.File, environ ...string) *process {
	t.Helper()
	p := &process{t: t, dir: dir, socket: filepath.Join(dir, "api.sock"), exit: make(chan error, 1), more: make(chan struct{})}
	file := filepath.Join(dir, "controller.yaml")
	config := fmt.Sprintf("listen: 127.0.0.1:0\nmetricsListen: 127.0.0.1:0\nnames: [127.0.0.1]\ndataDirectory: %s/data\nsocket: %s\n", dir, p.socket)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	notify := filepath.Join(dir, "notify.sock")
	_ = os.Remove(notify)
	var err error
	if p.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	// The shell becomes the controller, so that LISTEN_PID can be its own.
	p.cmd = exec.CommandContext(t.Context(), "/bin/sh", "-c", `LISTEN_PID=$$ WATCHDOG_PID=$$ exec "$0" serve --config "$1"`, os.Args[0], file)
	p.cmd.Env = append(append(os.Environ(), asController+"=1", "NOTIFY_SOCKET="+notify), environ...)
	p.cmd.ExtraFiles, p.cmd.Stdout, p.cmd.Stderr = files, p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.exit <- p.cmd.Wait() }()
	t.Cleanup(func() { _, _ = p.cmd.Process.Kill(), p.notify.Close() })
	return p
}

// told waits until systemd has been told this state.
func (p *process) told(state string) {
	p.t.Helper()
	buffer := make([]byte, 256)
	_ = p.notify.SetReadDeadline(time.Now().Add(20 * time.Second))
	for {
		n, err := p.notify.Read(buffer)
		if err != nil {
			p.t.Fatalf("systemd was not told %s: %v\n%s", state, err, p.logged())
		}
		if string(buffer[:n]) == state {
			return
		}
	}
}

// stop ends the controller and returns how it ended.
func (p *process) stop() error {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case err := <-p.exit:
		return err
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines
		err := <-p.exit
		p.t.Logf("after SIGQUIT: %v", err)
		p.t.Fatalf("it does not stop\n%s", p.logged())
		return nil
	}
}

func (p *process) client() *http.Client {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", p.socket)
	}}
	p.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (p *process) call(method, path string, body io.Reader) (int, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, "http://controller"+path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := p.client().Do(r)
	if err != nil {
		p.t.Fatalf("%v\n%s", err, p.logged())
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// scrape is what the controller offers to Prometheus.
func scrape(t *testing.T, address string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const instance = "/v1/vnf_instances/b1bb0ce7-ebca-4fa7-95ed-4840d70a1177"

// spec is the specification's own body, as the API takes it.
func spec(t *testing.T) io.Reader {
	t.Helper()
	text, err := os.ReadFile("../shared/params/testdata/persistent-volumes.json")
	if err != nil {
		t.Fatal(err)
	}
	var body struct {
		AdditionalParams json.RawMessage `json:"additionalParams"`
	}
	if err := json.Unmarshal(text, &body); err != nil {
		t.Fatal(err)
	}
	text, err = json.Marshal(wire.InstanceSpec{AdditionalParams: body.AdditionalParams})
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(text)
}

func TestAControllerServesFromItsFirstStartToItsEndAndAgain(t *testing.T) {
	dir := t.TempDir()
	p := begin(t, dir, nil)
	p.told("READY=1")
	if info, err := os.Stat(p.socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v %v", info.Mode(), err)
	}
	if status, body := p.call("PUT", instance, spec(t)); status != http.StatusCreated {
		t.Errorf("%d %s", status, body)
	}
	p.says("pin=sha256:.* epoch=")
	p.says("hitchctl --server unix://" + regexp.QuoteMeta(p.socket) + " create token")
	metrics := p.says(`metrics=(\S+)`)
	text := scrape(t, metrics[1])
	for _, want := range []string{`nodehitch_instances{state="NOT_INSTANTIATED"} 1`, `operation="putInstance"} 1`, `nodehitch_store_transaction_duration_seconds_count{type="write"}`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in the metrics", want)
		}
	}
	if err := p.stop(); err != nil {
		t.Errorf("%v\n%s", err, p.logged())
	}
	p.told("STOPPING=1")

	p = begin(t, dir, nil)
	p.told("READY=1")
	if status, body := p.call("GET", instance, nil); status != http.StatusOK {
		t.Errorf("after a restart: %d %s", status, body)
	}
	if status, _ := p.call("POST", "/v1/tokens", strings.NewReader(`{"name":"admin","scope":"operator"}`)); status != http.StatusCreated {
		t.Errorf("a token: %d", status)
	}
	other := begin(t, dir, nil)
	if err := <-other.exit; err == nil || !strings.Contains(other.logged(), "another controller is running") {
		t.Errorf("a second controller: %v\n%s", err, other.logged())
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

func TestAnAddressThatCannotBeListenedOnNamesItsSetting(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	for address, want := range map[string][]string{
		taken.Addr().String(): {"metricsListen", "--metrics-listen", "ss -ltnp"},
		"192.0.2.77:0":        {"metricsListen", "--metrics-listen", "ip address"},
	} {
		p := begin(t, t.TempDir(), nil, "NODEHITCH_CONTROLLER_METRICS_LISTEN="+address)
		if err := <-p.exit; err == nil {
			t.Errorf("it listens on %s", address)
		}
		for _, part := range want {
			if !strings.Contains(p.logged(), part) {
				t.Errorf("%s: it does not say %q:\n%s", address, part, p.logged())
			}
		}
	}
}

func TestAnAgentDirectoryWithoutAgentsIsSaidAtTheStart(t *testing.T) {
	missing, empty, agents := filepath.Join(t.TempDir(), "missing"), t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(agents, "nodehitch-agent-amd64"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{missing: "no such file", empty: "has no file nodehitch-agent-", agents: ""} {
		p := begin(t, t.TempDir(), nil, "NODEHITCH_CONTROLLER_AGENT_DIRECTORY="+dir)
		p.told("READY=1")
		if err := p.stop(); err != nil {
			t.Error(err)
		}
		warned := strings.Contains(p.logged(), `level=WARN msg="no VM can download an agent: put`)
		if warned != (want != "") || !strings.Contains(p.logged(), want) {
			t.Errorf("agents in %s: warned %v, want %q\n%s", dir, warned, want, p.logged())
		}
	}
}

func TestAnUploadInHandIsFinishedBeforeTheEnd(t *testing.T) {
	p := begin(t, t.TempDir(), nil)
	p.told("READY=1")
	conn, err := new(net.Dialer).DialContext(t.Context(), "unix", p.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT %s/files/a HTTP/1.1\r\nHost: controller\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n", instance)
	answers := bufio.NewReader(conn)
	if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatal(line, err)
	}
	if _, err := answers.ReadString('\n'); err != nil { // the empty line after it
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.told("STOPPING=1")
	fmt.Fprint(conn, "0123456789")
	response, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, p.logged())
	}
	response.Body.Close()
	if response.StatusCode != http.StatusCreated || !response.Close {
		t.Errorf("%d, the connection closes: %v", response.StatusCode, response.Close)
	}
	if err := <-p.exit; err != nil {
		t.Error(err)
	}
}

func TestTheWatchdogIsToldWhileTheStoreAnswers(t *testing.T) {
	p := begin(t, t.TempDir(), nil, "WATCHDOG_USEC=200000")
	p.told("READY=1")
	p.told("WATCHDOG=1")
	p.told("WATCHDOG=1")
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// inherited is a socket as systemd hands it over.
func inherited(t *testing.T) (f *os.File, address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if f, err = l.(*net.TCPListener).File(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f, l.Addr().String()
}

func TestSocketsFromSystemdAreUsed(t *testing.T) {
	dir := t.TempDir()
	var files []*os.File
	addresses := make(map[string]string)
	for _, name := range []string{"https", "metrics"} {
		f, address := inherited(t)
		addresses[name], files = address, append(files, f)
	}
	p := begin(t, dir, files, "LISTEN_FDS=2", "LISTEN_FDNAMES=https:metrics")
	p.told("READY=1")
	p.says("listen=" + regexp.QuoteMeta(addresses["https"]))
	scrape(t, addresses["metrics"])
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

func TestWhatTheCommandLineSays(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		args []string
		code int
		says []string
	}{
		"no such command": {[]string{"bogus"}, exitUsage, []string{`unknown command "bogus"`}},
		"no such flag":    {[]string{"serve", "--liste", "x"}, exitUsage, []string{"unknown flag: --liste"}},
		"no backup":       {[]string{"restore"}, exitUsage, []string{"accepts 1 arg"}},
		"every wrong setting at once": {[]string{"serve", "--listen", "nowhere", "--poll-seconds", "x", "--attestation-mode", "nova"}, exitUsage,
			[]string{"--listen: is \"nowhere\"", "--poll-seconds: is \"x\"; expected an integer", "--attestation-mode: is nova, but no cloud is configured"}},
		"a boolean needs no value":              {[]string{"serve", "--listen", "nowhere", "--attestation-source-address"}, exitUsage, []string{"not valid:\n--listen: is \"nowhere\""}},
		"restore has what it uses":              {[]string{"restore", "--data-directory", dir, "--seal-key-file", dir + "/key", dir + "/absent.tar"}, exitFailed, []string{"absent.tar: no such file"}},
		"restore has no flag that does nothing": {[]string{"restore", "--listen", ":1", "x.tar"}, exitUsage, []string{"unknown flag: --listen"}},
		"the version":                           {[]string{"version"}, 0, []string{"nodehitch-controller version devel\n"}},
		"the version by a flag":                 {[]string{"--version"}, 0, []string{"nodehitch-controller version devel\n"}},
		"completion":                            {[]string{"completion", "bash"}, 0, []string{"bash completion"}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], c.args...)
			cmd.Env = append(os.Environ(), asController+"=1")
			out, err := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d (%v); want %d", code, err, c.code)
			}
			for _, want := range c.says {
				if !strings.Contains(string(out), want) {
					t.Errorf("%q is missing in %s", want, out)
				}
			}
		})
	}
}
