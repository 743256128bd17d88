// Package loopback runs the real controller as a process of its own on 127.0.0.1,
// for suites that need no machine: its state is a folder of the test, and it can be
// ended with any signal and started again on the same state.
package loopback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/process"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/sourcetree"
)

// Options of a controller. The zero value is good.
type Options struct {
	// Binary is the controller's; empty means the one that `make build` has made.
	Binary string
	// Settings are lines of controller.yaml beside, or instead of, the usual ones.
	Settings map[string]string
	// Env is added to the controller's environment.
	Env []string
	// Wrap is put before the controller's argv, such as [prlimit, --nofile=…].
	Wrap []string
	// Address is where it listens; empty means a free port of 127.0.0.1.
	Address string
}

// Controller is the process and its state.
type Controller struct {
	// Dir holds controller.yaml, data/, socket and log.
	Dir string
	// URL is where agents reach it.
	URL string
	// API is its API as root of its machine.
	API *client.Controller

	t       testing.TB
	o       Options
	process *process.Process
	tokens  map[string]int // how many Token has made of a name
}

// Bin is the folder of the built binaries, which NODEHITCH_BIN may name.
func Bin(t testing.TB) string {
	t.Helper()
	if named := os.Getenv("NODEHITCH_BIN"); named != "" {
		return named
	}
	bin := sourcetree.Path("bin")
	if _, err := os.Stat(filepath.Join(bin, "nodehitch-controller")); err != nil {
		t.Fatalf("the controller is not built, run `make build`: %v", err)
	}
	return bin
}

// Open starts a controller and returns when it is ready. It ends with the test,
// which shows its log when it has failed.
func Open(t testing.TB, o Options) *Controller {
	t.Helper()
	if o.Address == "" {
		o.Address = FreeAddress(t)
	}
	c := &Controller{Dir: t.TempDir(), URL: "https://" + o.Address, t: t, o: o}
	c.SetBinary(o.Binary, o.Wrap...)
	if err := os.WriteFile(c.ConfigFile(), c.config(), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.API, err = client.New(client.Options{UnixSocket: filepath.Join(c.Dir, "socket")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.End(syscall.SIGTERM)
		if t.Failed() {
			log := c.Log()
			t.Logf("the controller's log ends with:\n%s", log[max(0, len(log)-20000):])
		}
	})
	c.Start()
	return c
}

func (c *Controller) config() []byte {
	host, _, _ := net.SplitHostPort(c.o.Address)
	lines := map[string]string{
		"listen":         c.o.Address,
		"names":          "[" + host + "]",
		"advertiseUrls":  "[" + c.URL + "]",
		"dataDirectory":  filepath.Join(c.Dir, "data"),
		"socket":         filepath.Join(c.Dir, "socket"),
		"metricsListen":  `""`,
		"agentDirectory": c.Dir,
		"attestation":    "{mode: token}",
		"pollSeconds":    "5", "convergeSeconds": "10",
	}
	for name, value := range c.o.Settings {
		lines[name] = value
	}
	var b bytes.Buffer
	for name, value := range lines {
		fmt.Fprintf(&b, "%s: %s\n", name, value)
	}
	return b.Bytes()
}

// ConfigFile is its controller.yaml.
func (c *Controller) ConfigFile() string { return filepath.Join(c.Dir, "controller.yaml") }

// Data is its data directory.
func (c *Controller) Data() string { return filepath.Join(c.Dir, "data") }

// Start starts it again after End, and fails the test when it does not get ready.
func (c *Controller) Start() {
	c.t.Helper()
	if err := c.TryStart(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
}

// TryStart starts it again after End. When it ends before it is ready, the error
// holds all that it logged in this life.
func (c *Controller) TryStart(ctx context.Context) error {
	before := len(c.Log())
	log, err := os.OpenFile(filepath.Join(c.Dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	argv := append(append([]string{}, c.o.Wrap...), c.o.Binary, "serve", "--config", c.ConfigFile())
	cmd := exec.CommandContext(context.WithoutCancel(ctx), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), c.o.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	running, err := process.Start(cmd)
	if err != nil {
		return err
	}
	c.process = running
	limit, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for client.Done(c.API.GetHealthz(limit)) != nil { // the disk may be full: not ready
		select {
		case <-running.Ended():
			c.process = nil
			return fmt.Errorf("the controller ended before it was ready (%w):\n%s", errors.Join(running.How()), c.Log()[before:])
		case <-limit.Done():
			return fmt.Errorf("the controller is not ready: %w", limit.Err())
		case <-tick.C:
		}
	}
	return nil
}

// SetEnv replaces what is added to the environment from the next start on.
func (c *Controller) SetEnv(env ...string) { c.o.Env = env }

// SetBinary replaces the program from the next start on; empty means the one that `make
// build` has made. What Wrap was is replaced too.
func (c *Controller) SetBinary(binary string, wrap ...string) {
	if binary == "" {
		binary = filepath.Join(Bin(c.t), "nodehitch-controller")
	}
	c.o.Binary, c.o.Wrap = binary, wrap
}

// PID of the running process.
func (c *Controller) PID() int { return c.process.Process.Pid }

// Exited is closed when the process has ended.
func (c *Controller) Exited() <-chan struct{} { return c.process.Ended() }

// End ends it with a signal and waits until it has gone; it need not run any more.
func (c *Controller) End(signal syscall.Signal) {
	if c.process == nil {
		return
	}
	_ = c.process.Process.Signal(signal)
	<-c.process.Ended() // killed is as good as ended
	c.process = nil
}

// Log is what it has logged, in all its lives.
func (c *Controller) Log() []byte {
	log, _ := os.ReadFile(filepath.Join(c.Dir, "log"))
	return log
}

// Logged is how many lines of the log have all of these fields, each as key=value.
func (c *Controller) Logged(fields ...string) (n int) {
	for line := range strings.Lines(string(c.Log())) {
		line = " " + strings.TrimSpace(line) + " "
		if !slices.ContainsFunc(fields, func(field string) bool { return !strings.Contains(line, " "+field+" ") }) {
			n++
		}
	}
	return n
}

// Hitchctl runs hitchctl as root of the controller's machine and returns what it
// printed; its error has what it said on standard error.
func (c *Controller) Hitchctl(args ...string) ([]byte, error) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), filepath.Join(Bin(c.t), "hitchctl"), args...)
	cmd.Env = append(os.Environ(), "NODEHITCH_SERVER=unix://"+filepath.Join(c.Dir, "socket"), "HOME="+c.Dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("hitchctl %s: %w: %s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return out, nil
}

// Must is Hitchctl for what has to succeed.
func (c *Controller) Must(args ...string) string {
	c.t.Helper()
	out, err := c.Hitchctl(args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(out)
}

// Until waits for something that another process does. It fails the test after 90 seconds,
// which is enough on a busy machine.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	Within(t, 90*time.Second, what, ok)
}

// Within is Until with another limit, and returns how long it took.
func Within(t testing.TB, limit time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Since(began) > limit {
			t.Fatalf("after %v still not: %s", limit, what)
		}
		<-tick.C
	}
	return time.Since(began)
}

// Elsewhere is a controller that the test itself has started, on a machine of the
// lab say: of this type only what asks its API works.
func Elsewhere(t testing.TB, url string, api *client.Controller) *Controller {
	return &Controller{URL: url, API: api, t: t}
}
