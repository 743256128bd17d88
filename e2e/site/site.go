// Package site puts a real controller into a lab and hands out the CLI that
// talks to it: what an operator has, for the demo and for the black-box cases.
package site

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
)

// Site is a controller that listens on the lab's own address. Its state
// outlives Stop and Kill, and goes with the lab's state folder.
type Site struct {
	Lab *lab.Lab
	// URL is where agents and hitchctl reach the controller.
	URL string

	bin      string // folder of the built binaries
	dir      string // state, socket, log of the controller
	settings []string
	process  *exec.Cmd
	exited   chan error
}

// Open starts the controller of the binaries in bin and returns when it is ready. settings
// are further lines of its configuration; without any, machines enroll with the join token
// alone.
func Open(ctx context.Context, l *lab.Lab, bin string, settings ...string) (*Site, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	s := &Site{
		Lab: l,
		URL: "https://" + lab.Gateway.String() + ":8443",
		bin: bin,
		dir: filepath.Join(l.Dir(), "controller"),

		settings: settings,
	}
	if len(settings) == 0 {
		s.settings = []string{"attestation: {mode: token}"}
	}
	for _, name := range []string{"nodehitch-controller", "hitchctl", "nodehitch-agent-amd64"} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			return nil, fmt.Errorf("%s is not built, run `make build`: %w", name, err)
		}
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(s.configFile(), []byte(s.config()), 0o600); err != nil {
		return nil, err
	}
	return s, s.Start(ctx)
}

func (s *Site) configFile() string { return filepath.Join(s.dir, "controller.yaml") }

func (s *Site) config() string {
	return fmt.Sprintf(`listen: %[1]s:8443
names: [%[1]s]
advertiseUrls: [%[2]s]
dataDirectory: %[3]s/data
socket: %[3]s/controller.sock
metricsListen: 127.0.0.1:8643
agentDirectory: %[4]s
pollSeconds: 10
convergeSeconds: 20
%[5]s
`, lab.Gateway, s.URL, s.dir, s.bin, strings.Join(s.settings, "\n"))
}

// Start starts a controller that Stop or Kill has ended, on the same state.
func (s *Site) Start(ctx context.Context) error {
	log, err := os.OpenFile(s.LogFile(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	// The controller outlives ctx: it ends by Stop, Kill or with the lab.
	s.process = s.Lab.Command(context.Background(), filepath.Join(s.bin, "nodehitch-controller"), "serve", "--config", s.configFile())
	s.process.Stdout, s.process.Stderr = log, log
	if err := s.process.Start(); err != nil {
		return fmt.Errorf("starting the controller: %w", err)
	}
	s.exited = make(chan error, 1)
	go func() { s.exited <- s.process.Wait() }()
	return s.waitReady(ctx)
}

// LogFile is the controller's log, of all its lives.
func (s *Site) LogFile() string { return filepath.Join(s.dir, "controller.log") }

// waitReady polls /readyz until it answers 200 or the controller has ended.
func (s *Site) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	client := s.socketClient()
	defer client.CloseIdleConnections()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://controller/readyz", nil)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-s.exited:
			s.exited <- err
			log, _ := os.ReadFile(s.LogFile())
			return fmt.Errorf("the controller ended before it was ready: %w; its log:\n%s", cmp.Or(err, errors.New("exit code 0")), log)
		case <-ctx.Done():
			return fmt.Errorf("waiting for the controller to be ready: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// CPUTime is what the controller has used in its present life.
func (s *Site) CPUTime() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Process.Pid))
	if err != nil {
		return 0, err
	}
	// proc_pid_stat(5): utime and stime are 14 and 15, in hundredths of a second; the
	// name, 2, ends with a parenthesis.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// Running says that the controller has not been stopped.
func (s *Site) Running() bool { return s.process != nil }

// Stop ends the controller in order.
func (s *Site) Stop() error { return s.end(syscall.SIGTERM) }

// Kill ends the controller with SIGKILL.
func (s *Site) Kill() error { return s.end(syscall.SIGKILL) }

func (s *Site) end(signal syscall.Signal) error {
	if s.process == nil {
		return nil
	}
	if err := s.process.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending the controller: %w", err)
	}
	err := <-s.exited
	s.process = nil
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == signal {
		return nil
	}
	return err
}
