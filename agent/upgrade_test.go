package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/config"
	"github.com/nodehitch/nodehitch/agent/machine/install"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/agent/upgrade"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// The unit runs the build that the agent keeps, and says so to the agent.
func TestTheUnitGuardsTheAgent(t *testing.T) {
	unit, err := os.ReadFile("machine/install/nodehitch-agent.service")
	if err != nil {
		t.Fatal(err)
	}
	previous := upgrade.Previous(install.Binary)
	for _, line := range []string{
		"Environment=" + guardVariable + "=" + previous, "ExecStartPre=-" + previous + " upgrade check", "ExecStart=" + install.Binary + " run", "Restart=always",
	} {
		if !strings.Contains(string(unit), "\n"+line+"\n") {
			t.Errorf("the unit does not have the line %q", line)
		}
	}
}

// configured is an agent.yaml, and its state directory.
func configured(t *testing.T) (file string, d *state.Directory) {
	t.Helper()
	root := testca.Root(t, "root")
	c := config.Config{ControllerURLs: []string{"https://127.0.0.1:1"}, RootCertificate: string(root.PEM()), Pin: client.Pin(root.Cert),
		StateDirectory: filepath.Join(t.TempDir(), "state")}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if d, err = state.Open(c.StateDirectory); err != nil {
		t.Fatal(err)
	}
	return write(t, string(text)), d
}

func TestTheSelfTestReadsAllStateAndWritesNone(t *testing.T) {
	file, d := configured(t)
	if code, stdout, stderr := runs(t, "self-test", "--config", file); code != exitOK || stdout+stderr != "" {
		t.Errorf("nothing is there yet: exit %d, %q, %q", code, stdout, stderr)
	}
	if code, _, _ := runs(t, "self-test", "--config", write(t, "{}")); code == exitOK {
		t.Error("agent.yaml is empty, and the self-test is content")
	}
	const secret = "hunter2"
	for _, name := range []string{"machine.json", "last-known-good.json", "controllers.json", "identity.pem", "identity-next.pem", "inventory.json"} {
		if err := d.Write(name, []byte(secret)); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := runs(t, "self-test", "--config", file)
		if code != exitFailed || !strings.Contains(stderr, name) || strings.Contains(stderr, secret) {
			t.Errorf("%s is damaged: exit %d, %q", name, code, stderr)
		}
		if got, err := d.Read(name); err != nil || string(got) != secret {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err := d.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(d.Path("")); err != nil || len(left) != 0 {
		t.Errorf("it has written %v, %v", left, err)
	}
}

// The guard decides without a configuration too, and never waits for one.
func TestTheGuardOfNoAgentSaysSo(t *testing.T) {
	file, _ := configured(t)
	for _, name := range []string{file, "/nonexistent/agent.yaml"} {
		for _, command := range []string{"check", "overdue"} {
			code, _, stderr := runs(t, "upgrade", command, "--config", name)
			if code != exitFailed || !strings.Contains(stderr, "is not the previous build of an agent") {
				t.Errorf("%s: exit %d, %q", command, code, stderr)
			}
		}
	}
}

// A switch waits for a format and for the certificate.
func TestASwitchWaitsForWhatMustNotBeCut(t *testing.T) {
	_, d := configured(t)
	if why, err := unfinished(d, d.Path(""), 0); err != nil || !strings.Contains(why, "certificate") {
		t.Errorf("without a certificate: %q, %v", why, err)
	}
	const volume = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f"
	err := errors.Join(os.Mkdir(d.Path("journal"), 0o700), os.WriteFile(d.Path("journal/"+volume+".json"), []byte("{"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if why, err := unfinished(d, d.Path(""), 0); err != nil || why != "the format of volume "+volume {
		t.Errorf("during a format: %q, %v", why, err)
	}
}
