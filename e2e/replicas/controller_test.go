package replicas

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/process"
)

// controller is the real one on a host of its own, and what systemd does with it: it starts
// it again when it has ended.
type controller struct {
	*host
	t testing.TB
	// dir has its configuration, data, socket and log.
	dir, url string
	// pause is the unit's RestartSec.
	pause time.Duration

	mu      sync.Mutex
	binary  string
	process *process.Process
	// ends is how often it has ended by itself, or was killed.
	ends int
	// ready is how often it has told systemd that it has started.
	ready   int
	stopped chan struct{} // closed to end it for good
	gone    chan struct{} // closed when it is not started again
}

const controllerPort = "8443"

// newController writes its configuration. It does not run yet.
func newController(t testing.TB, h *host, dir string, settings map[string]string) *controller {
	t.Helper()
	c := &controller{host: h, t: t, dir: filepath.Join(dir, h.name), url: "https://" + net.JoinHostPort(h.address.String(), controllerPort),
		binary: filepath.Join(loopback.Bin(t), "nodehitch-controller"), pause: restartPause(t)}
	lines := map[string]string{
		"listen": net.JoinHostPort(h.address.String(), controllerPort), "dataDirectory": c.data(), "socket": c.socket(),
		"metricsListen": c.metrics(), "agentDirectory": c.dir, "attestation": "{mode: token}", "convergeSeconds": "86400",
	}
	for name, value := range settings {
		lines[name] = value
	}
	var text bytes.Buffer
	for name, value := range lines {
		fmt.Fprintf(&text, "%s: %s\n", name, value)
	}
	if err := errors.Join(os.MkdirAll(c.data(), 0o700), os.WriteFile(c.config(), text.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	c.listen()
	t.Cleanup(func() {
		if t.Failed() {
			var lines []string
			for line := range strings.Lines(c.log()) {
				if !strings.Contains(line, "msg=request ") && !strings.Contains(line, "event=node.enrolled") {
					lines = append(lines, line)
				}
			}
			log := strings.Join(lines, "")
			t.Logf("the log of %s ends with:\n%s", h.name, log[max(0, len(log)-6000):])
		}
	})
	t.Cleanup(c.stop)
	return c
}

func (c *controller) metrics() string { return net.JoinHostPort(c.address.String(), "9464") }

func (c *controller) data() string   { return filepath.Join(c.dir, "data") }
func (c *controller) socket() string { return filepath.Join(c.dir, "socket") }
func (c *controller) config() string { return filepath.Join(c.dir, "controller.yaml") }

func (c *controller) log() string {
	text, _ := os.ReadFile(filepath.Join(c.dir, "log"))
	return string(text)
}

// restartPause is what the unit says.
func restartPause(t testing.TB) time.Duration {
	t.Helper()
	units, err := filepath.Glob("../../packaging/*/nodehitch-controller.service")
	if err != nil || len(units) != 1 {
		t.Fatalf("the controller's unit: %v, %v", units, err)
	}
	text, err := os.ReadFile(units[0])
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^RestartSec=(.*)$`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s has no RestartSec", units[0])
	}
	pause, err := time.ParseDuration(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return pause
}

// listen hears what it tells systemd.
func (c *controller) listen() {
	c.t.Helper()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: c.notify(), Net: "unixgram"})
	if err != nil {
		c.t.Fatal(err)
	}
	heard := make(chan struct{})
	c.t.Cleanup(func() { _ = socket.Close(); <-heard })
	go func() {
		defer close(heard)
		buffer := make([]byte, 4096)
		for {
			n, err := socket.Read(buffer)
			if err != nil {
				return
			}
			if strings.Contains("\n"+string(buffer[:n])+"\n", "\nREADY=1\n") {
				c.mu.Lock()
				c.ready++
				c.mu.Unlock()
			}
		}
	}()
}

func (c *controller) notify() string { return filepath.Join(c.dir, "notify") }

// start starts it, and again whenever it ends, until stop.
func (c *controller) start() {
	c.t.Helper()
	c.mu.Lock()
	c.stopped, c.gone = make(chan struct{}), make(chan struct{})
	stopped, gone := c.stopped, c.gone
	c.mu.Unlock()
	first := make(chan error, 1)
	go func() {
		defer close(gone)
		for again := false; ; again = true {
			running, err := c.launch(again)
			if !again {
				first <- err
			}
			if err != nil {
				return
			}
			select {
			case <-running.Ended():
			case <-stopped:
				_ = running.Process.Signal(syscall.SIGCONT)
				_ = running.Process.Signal(syscall.SIGTERM)
				select {
				case <-running.Ended():
				case <-time.After(45 * time.Second): // the unit's TimeoutStopSec
					_ = running.Process.Kill()
				}
				<-running.Ended()
				return
			}
			c.mu.Lock()
			c.ends++
			c.mu.Unlock()
			var exit *exec.ExitError
			if errors.As(running.How(), &exit) && exit.ExitCode() == 2 {
				return // RestartPreventExitStatus
			}
			select {
			case <-time.After(c.pause):
			case <-stopped:
				return
			}
		}
	}()
	if err := <-first; err != nil {
		c.t.Fatal(err)
	}
}

func (c *controller) launch(again bool) (*process.Process, error) {
	log, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	argv := append(c.inside(), c.binary, "serve", "--config", c.config())
	cmd := exec.CommandContext(context.Background(), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+c.notify())
	cmd.Stdout, cmd.Stderr = log, log
	running, err := process.Start(cmd)
	if err == nil {
		c.process = running
	} else if again {
		c.t.Errorf("%s: %v", c.name, err)
	}
	return running, err
}

// stop ends it for good, until start.
func (c *controller) stop() {
	c.mu.Lock()
	stopped, gone := c.stopped, c.gone
	c.stopped = nil
	c.mu.Unlock()
	if stopped == nil {
		return
	}
	close(stopped)
	<-gone
}

// refuses waits until systemd would not start it again, or it has ended so often.
func (c *controller) refuses(ends int) {
	c.t.Helper()
	before := c.ended()
	loopback.Until(c.t, c.name+" refuses to start", func() bool {
		select {
		case <-c.gone:
			return true
		default:
			return c.ended() >= before+ends
		}
	})
}

func (c *controller) ended() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ends
}

func (c *controller) started() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ready
}

// signal sends one to the process.
func (c *controller) signal(s syscall.Signal) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.process.Process.Signal(s); err != nil {
		c.t.Errorf("signalling %s: %v", c.name, err)
	}
}

func (c *controller) setBinary(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.binary = path
}

// seenRevision is that of etcd which its disk says that it has seen.
func (c *controller) seenRevision() (int64, error) {
	text, err := os.ReadFile(filepath.Join(c.data(), "history.json"))
	if err != nil {
		return 0, err
	}
	var seen struct{ Revision int64 }
	err = json.Unmarshal(text, &seen)
	return seen.Revision, err
}
