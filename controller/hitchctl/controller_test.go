package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/e2e/build"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// With a real controller. Scripts start it with `controller start`; `agent` plays
// the VMs; `terminal` runs a command on a pseudo-terminal.
func TestWithController(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "nodehitch-controller")
	build.Compile(t, binary, build.Controller, "devel")
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script/controller", RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Values[worldKey{}] = &world{t: t, binary: binary, machines: map[string]*machine{}}
			// The path of a unix socket may have 107 bytes; a work directory has more.
			dir, err := os.MkdirTemp("", "hitchctl")
			if err != nil {
				return err
			}
			env.Defer(func() { _ = os.RemoveAll(dir) })
			env.Setenv("NODEHITCH_SERVER", "unix://"+filepath.Join(dir, "s"))
			env.Setenv("DATA", dir)
			env.Setenv("CONTROLLER", binary)
			testdata, err := filepath.Abs("testdata")
			if err != nil {
				return err
			}
			env.Setenv("TESTDATA", testdata)
			env.Setenv("ID", "0b1a5c2e-7c53-4d86-9f0a-8f6f5b0c1d2e")
			env.Setenv("SERVER", "4a0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f1")
			env.Setenv("STACK", "9c1f0f3e-50a4-43c7-8e8e-6a4d6b9d1a11")
			env.Setenv("VOLUME", "9a0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f1")
			if err := os.CopyFS(env.WorkDir, os.DirFS("testdata/topology")); err != nil {
				return err
			}
			return samples(env)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"controller": cmdController, "agent": cmdAgent, "terminal": cmdTerminal, "until": cmdUntil, "proxy": cmdProxy,
			"cloud": cmdCloud, "exitcode": cmdExitCode, "session": cmdSession, "silent": cmdSilent,
		},
	})
}

type worldKey struct{}

// world is what a script's commands share.
type world struct {
	t          *testing.T
	binary     string
	controller *exec.Cmd
	machines   map[string]*machine
	cloud      *openstacktest.Cloud // nil for none
	session    session
}

func worldOf(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

const controllerConfig = `listen: %[1]s
names: [127.0.0.1]
dataDirectory: %[2]s/data
socket: %[2]s/s
metricsListen: ""
agentDirectory: %[2]s/agents
`

// cmdController is `controller start` and `controller stop`.
func cmdController(ts *testscript.TestScript, _ bool, args []string) {
	w := worldOf(ts)
	if args[0] == "stop" {
		ts.Check(stop(w))
		return
	}
	dir := ts.Getenv("DATA")
	config := filepath.Join(dir, "controller.yaml")
	if _, err := os.Stat(config); err != nil {
		address, release, err := loopback.Reserve()
		ts.Check(err)
		ts.Defer(release)
		ts.Check(os.WriteFile(config, fmt.Appendf(nil, controllerConfig, address, dir), 0o600))
		ts.Check(w.withCloud(config))
		ts.Check(os.MkdirAll(filepath.Join(dir, "agents"), 0o755))
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	ts.Check(err)
	w.controller = exec.CommandContext(context.Background(), w.binary, "serve", "--config", config)
	w.controller.Stdout, w.controller.Stderr = log, log
	ts.Check(w.controller.Start())
	ts.Defer(func() { _ = stop(w) })
	ts.Check(untilItAnswers(ts))
}

// untilItAnswers waits for the controller's socket to answer.
func untilItAnswers(ts *testscript.TestScript) error {
	c, err := client.New(client.Options{UnixSocket: filepath.Join(ts.Getenv("DATA"), "s"), Timeout: time.Second})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if err = client.Done(c.GetReadyz(ctx)); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(ts.Getenv("DATA"), "log"))
			return fmt.Errorf("the controller does not answer: %w\n%s", err, log)
		case <-tick.C:
		}
	}
}

func stop(w *world) error {
	if w.controller == nil {
		return nil
	}
	cmd := w.controller
	w.controller = nil
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return cmd.Wait()
}

// cmdAgent is `agent enroll SERVER INSTANCE`, `agent report SERVER claim…`, and
// `agent secrets SERVER`, which prints what a member gets to join its cluster.
func cmdAgent(ts *testscript.TestScript, neg bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	w := worldOf(ts)
	err := func() error {
		switch args[0] {
		case "report":
			return w.machines[args[1]].report(ctx, args[2:])
		case "secrets":
			config, err := w.machines[args[1]].config(ctx)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(ts.Stdout(), config.Cluster.BootstrapToken+"\n"+config.Cluster.CertificateKey)
			return err
		}
		c, err := client.New(client.Options{UnixSocket: filepath.Join(ts.Getenv("DATA"), "s")})
		if err != nil {
			return err
		}
		trust, err := client.Read[api.Trust](c.GetTrust(ctx))
		if err != nil {
			return err
		}
		token, err := client.Read[api.JoinToken](c.GetJoinToken(ctx, args[2]))
		if err != nil {
			return err
		}
		w.machines[args[1]], err = enroll(ctx, *trust, token.Token, args[1])
		return err
	}()
	if neg != (err != nil) {
		ts.Fatalf("agent %v: %v", args, err)
	}
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// cmdTerminal is `terminal COLUMNS file prompt input command…`: the command's
// output goes into the file, with escape sequences; no line may be wider than
// the terminal.
func cmdTerminal(ts *testscript.TestScript, neg bool, args []string) {
	columns, err := strconv.ParseUint(args[0], 10, 16)
	ts.Check(err)
	cmd := exec.CommandContext(context.Background(), args[4], args[5:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"NODEHITCH_SERVER", "HOME", "PATH", "LANG", "NO_COLOR"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	cmd.Env = append(cmd.Env, "TERM=xterm")
	input := args[3]
	if input != "" {
		input += "\n"
	}
	out, err := onTerminal(cmd, uint16(columns), 40, args[2], input)
	ts.Logf("on a terminal of %d columns:\n%s", columns, escapes.ReplaceAllString(out, ""))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(out), 0o600))
	for _, line := range strings.Split(escapes.ReplaceAllString(out, ""), "\n") {
		for _, part := range strings.Split(strings.TrimRight(line, "\r"), "\r") {
			if n := screen.Width(part); n > int(columns) {
				ts.Fatalf("a line of %d columns: %s", n, part)
			}
		}
	}
	if neg != (err != nil) {
		ts.Fatalf("%v: %v", args[4:], err)
	}
}

// cmdUntil is `until FILE PATTERN`: waits until a background command has written it.
func cmdUntil(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile(args[1])
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		text, _ := os.ReadFile(ts.MkAbs(args[0]))
		if pattern.Match(text) {
			return
		}
		select {
		case <-deadline:
			ts.Fatalf("%s has no %s:\n%s", args[0], args[1], text)
		case <-tick.C:
		}
	}
}
