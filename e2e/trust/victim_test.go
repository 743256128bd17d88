package trust

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nodehitch/nodehitch/agent/config"
	"github.com/nodehitch/nodehitch/e2e/loopback"
)

// victim is a program of the node that an impostor deceives: the agent, or the downloader
// of user_data.
type victim struct {
	name string
	// run runs it until it has tried (tried says when it has reached the impostor), and
	// returns what it said. ok says that it succeeded.
	run func(a *attempt, c config.Config, server string, tried func() bool, env, wrap []string) (said string, ok bool)
}

var victims = []victim{{"agent", runAgent}, {"bootstrap", runBootstrap}}

// runAgent runs the real agent until its status tells of its first attempt.
func runAgent(a *attempt, c config.Config, server string, tried func() bool, env, wrap []string) (string, bool) {
	agent := loopback.StartAgent(a, loopback.AgentOptions{ServerID: server, Config: c, Env: env, Wrap: wrap})
	ended := false
	loopback.Until(a, "the agent has tried", func() bool {
		if agent.Ended() {
			ended = true
			return true
		}
		s := agent.Status()
		return s.Controller.Connected || s.Controller.LastError != "" && tried()
	})
	ok := !ended && agent.Status().Controller.Connected
	_ = agent.End(syscall.SIGTERM)
	return string(agent.Log()), ok
}

// runBootstrap runs the downloader as its unit does, once.
func runBootstrap(a *attempt, c config.Config, _ string, _ func() bool, env, wrap []string) (string, bool) {
	dir := a.TempDir()
	text, err := json.Marshal(c)
	if err != nil {
		a.Fatal(err)
	}
	configuration, agent := filepath.Join(dir, "agent.yaml"), filepath.Join(dir, "bin", "nodehitch-agent")
	if err := os.WriteFile(configuration, text, 0o600); err != nil {
		a.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(a.Context(), 2*time.Minute)
	defer cancel()
	packaged := filepath.Join(dir, "absent") // whatever this machine has installed
	argv := append(append([]string{}, wrap...), "/usr/bin/python3", "-I", "../../cloudinit/bootstrap.py", configuration, agent, packaged)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	runError := cmd.Run()
	_, missing := os.Stat(agent)
	if runError == nil && missing != nil {
		a.Errorf("it succeeded without an agent: %s", out.String())
	}
	if missing == nil && !strings.Contains(out.String(), "agent received") {
		a.Errorf("there is an agent that the controller did not serve: %s", out.String())
	}
	return out.String(), missing == nil
}
