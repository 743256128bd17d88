package packaging

import (
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// machine is one of the lab.
type machine struct {
	lab.Node
	// volumes are the mount points of volumes: what is on them counts too.
	volumes []string
}

// run runs a program and returns what it printed on standard output.
func (m *machine) run(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := m.Exec(t.Context(), argv...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// says runs a program and returns all that it printed.
func (m *machine) says(t *testing.T, argv ...string) (string, error) {
	t.Helper()
	out, err := m.Exec(t.Context(), append([]string{"sh", "-c", `exec "$@" 2>&1`, "sh"}, argv...)...)
	return string(out), err
}

// install installs package files by apt, also older ones, with an empty standard input: a
// question would fail it.
func (m *machine) install(t *testing.T, paths ...string) (string, error) {
	t.Helper()
	return m.says(t, append([]string{"apt-get", "install", "--yes", "--allow-downgrades", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=120"}, paths...)...)
}

func (m *machine) mustInstall(t *testing.T, paths ...string) string {
	t.Helper()
	said, err := m.install(t, paths...)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return said
}

// state is what systemd says of a unit, such as "inactive".
func (m *machine) state(t *testing.T, unit, property string) string {
	t.Helper()
	return m.run(t, "systemctl", "show", "--value", "--property="+property, unit)
}

// mounts are the mount points of volumes, with device and file system.
func (m *machine) mounts(t *testing.T) string {
	t.Helper()
	return m.run(t, "sh", "-c", "findmnt --noheadings --list --output TARGET,SOURCE,FSTYPE,UUID --types ext4; :")
}

// step is a line of the table: what do changed on the machine's disks.
func (m *machine) step(t *testing.T, name, shows string, do func(*testing.T) changes) {
	t.Helper()
	ok := t.Run(name, func(t *testing.T) {
		r := results.Begin(t, suite, m.Name()+" "+name, shows)
		do(t).record(r)
	})
	if !ok {
		t.FailNow() // the next steps need it
	}
}

// after runs do and returns what it changed on the machine's disks.
func (m *machine) after(t *testing.T, do func()) changes {
	t.Helper()
	m.run(t, append([]string{"sh", "-euc", listFiles + ">" + lists + "before"}, m.disks()...)...)
	do()
	return parseChanges(t, m.run(t, append([]string{"sh", "-euc", listFiles + "| " + compareFiles}, m.disks()...)...))
}

// reboot restarts the machine and waits until cloud-init has written what it writes in
// every boot.
func (m *machine) reboot(t *testing.T) {
	t.Helper()
	if err := m.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.WaitCloudInit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// disks are where listFiles begins.
func (m *machine) disks() []string { return append([]string{"/"}, m.volumes...) }
