package packaging

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// TestTackersMachine installs Tacker's driver as docs/tacker.md says, by the package and by
// pip, on a machine without a network. Python loads it each time as tacker-conductor does.
func TestTackersMachine(t *testing.T) {
	results.LongOnly(t)
	l := labtest.Open(t, lab.KindNspawn)
	if err := l.BuildImages(t.Context(), lab.KindNspawn); err != nil {
		t.Fatal(err)
	}
	boot, err := l.Nspawn(t.Context(), lab.Spec{Name: "tacker"})
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{Node: boot}
	if err := m.WaitCloudInit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.InstallPackages(t.Context(), m, "tacker", "python3-stevedore", "python3-pip"); err != nil {
		t.Fatal(err)
	}
	m.unpack(t, "../tacker/testdata", "/srv/tacker")
	deb := m.push(t, current(t).deb(t, tackerPackage))[0]
	m.step(t, "installed", "the package of Tacker's driver: stevedore loads it by its entry point", func(t *testing.T) changes {
		c := m.after(t, func() { m.mustInstall(t, deb) })
		c.onlyIn(t, ofPackage, ofManager)
		m.loads(t, "/usr/bin/python3", "/usr/lib/python3/dist-packages/")
		return c
	})
	m.step(t, "purged", "purge leaves nothing", func(t *testing.T) changes {
		c := m.after(t, func() { m.mustSay(t, "apt-get", "purge", "--yes", tackerPackage) })
		c.onlyIn(t, ofPackage, ofManager)
		if left := m.run(t, "find", "/usr/lib/python3/dist-packages", "-name", "*nodehitch*"); left != "" {
			t.Errorf("purge has left %q", left)
		}
		if out, err := m.says(t, "/usr/bin/python3", "-c", "import nodehitch"); err == nil || !strings.Contains(out, "ModuleNotFoundError") {
			t.Errorf("after the purge Python says %q (%v)", out, err)
		}
		return c
	})
	m.step(t, "installed by pip", "the wheel by pip, in a virtual environment and without a network: stevedore loads it by its entry point", func(t *testing.T) changes {
		const environment = "/opt/tacker"
		m.run(t, "/usr/bin/python3", "-m", "venv", "--without-pip", "--system-site-packages", environment)
		wheel := m.push(t, current(t).file(t, "nodehitch_tacker-*.whl"))[0]
		c := m.after(t, func() { m.run(t, environment+"/bin/python3", "-m", "pip", "install", wheel) })
		m.loads(t, environment+"/bin/python3", environment+"/lib/")
		return c
	})
}

// unpack puts a folder of the host onto the machine.
func (m *machine) unpack(t *testing.T, folder, path string) {
	t.Helper()
	packed, err := exec.CommandContext(context.WithoutCancel(t.Context()), "tar", "-C", folder, "-c", ".").Output()
	if err == nil {
		err = m.Push(t.Context(), path+".tar", 0o644, packed)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.run(t, "sh", "-euc", `mkdir "$0" && tar -x -C "$0" -f "$0.tar"`, path)
}

// loads asserts that this Python loads the driver, from a file below a folder.
func (m *machine) loads(t *testing.T, python, below string) {
	t.Helper()
	out := m.run(t, "env", "HOME=/root", "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=/srv/tacker/standin", python, "/srv/tacker/entry_point.py")
	var got struct{ File, Python, Stevedore string }
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("Python %s, stevedore %s: %s", got.Python, got.Stevedore, got.File)
	if !strings.HasPrefix(got.File, below) {
		t.Errorf("the driver is %s, want a file of %s", got.File, below)
	}
}
