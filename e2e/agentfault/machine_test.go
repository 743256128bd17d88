package agentfault

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// machine is a storage server of the lab whose volume has a filesystem with data, so
// that only the files on the root disk have to be made. e2e/powercut kills formats.
type machine struct {
	t    *testing.T
	site *site.Site
	node lab.Node
	data []byte // what has to survive, as the file kept
}

const kept = "/volume/kept"

func newMachine(t *testing.T) *machine {
	t.Helper()
	s := sitetest.Open(t, "../../bin", lab.KindNspawn)
	disk, err := s.Lab.NewDisk(uuid.NewString(), 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "mkfs.ext4", "-q", "-F", "-U", api.FilesystemUUID(disk.VolumeID), disk.Path).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	m := &machine{t: t, site: s}
	storage := site.Storage{
		Instance: uuid.NewString(),
		Server:   api.Server{ID: uuid.NewString(), Name: "storage", VolumeIds: []string{disk.VolumeID}},
		Volumes:  []site.Volume{{Name: "data", Disk: disk, MountTo: "/volume", SizeBytes: 64 << 20}},
		Exports:  []string{"/volume/nfs/pv1"},
	}
	m.node, err = s.Lab.Nspawn(t.Context(), lab.Spec{Name: "storage", ServerID: storage.Server.ID, Disks: []lab.Disk{disk}})
	if err == nil {
		err = m.node.WaitCloudInit(t.Context())
	}
	if err == nil {
		err = s.Inhabit(t.Context(), &storage, m.node, t.TempDir())
	}
	if err != nil {
		t.Fatal(err)
	}
	m.await("the volume is mounted", func() error { return m.mounted("") })
	content := make([]byte, 1<<20)
	_, _ = rand.Read(content)
	if err := m.node.Push(t.Context(), kept, 0o600, content); err != nil {
		t.Fatal(err)
	}
	m.data = content
	return m
}

func (m *machine) do(argv ...string) string {
	m.t.Helper()
	out, err := m.node.Exec(m.t.Context(), argv...)
	if err != nil {
		m.t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// mounted says why the volume is not mounted by a node with another certificate than
// this one.
func (m *machine) mounted(before string) error {
	var n api.Node
	if err := m.site.JSON(m.t.Context(), &n, "get", "node", m.node.ServerID()); err != nil {
		return err
	}
	c := n.Status.Condition(api.ConditionVolumesMounted)
	if c == nil || c.Status != api.ConditionTrue || n.CertificateSerial == before || n.Status.Facts.AgentVersion == "" {
		return fmt.Errorf("certificate %s, %s is %+v", n.CertificateSerial, api.ConditionVolumesMounted, c)
	}
	if _, err := m.node.Exec(m.t.Context(), "mountpoint", "-q", "/volume"); err != nil {
		return err
	}
	return nil
}

func (m *machine) await(what string, right func() error) {
	m.t.Helper()
	limit := time.After(3 * time.Minute)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := right()
		if err == nil {
			return
		}
		select {
		case <-limit:
			status, _ := m.node.Exec(context.WithoutCancel(m.t.Context()), "nodehitch-agent", "status")
			m.t.Fatalf("timed out; expected: %s: %v\n%s", what, err, status)
		case <-tick.C:
		}
	}
}

// made is all that the agent has made on the machine, as a text that is equal for equal
// states.
func (m *machine) made() string {
	return m.do("sh", "-c", `cd / && find var/lib/nodehitch/agent etc/systemd/system etc/exports.d -name '*nodehitch*' -o -name '*volume*' -o -path '*lib/nodehitch*' | sort
cat etc/systemd/system/volume.mount etc/systemd/system/*.device.d/nodehitch.conf
sed 's/"ChangedAt.*//' var/lib/nodehitch/agent/inventory.json
findmnt -n -o TARGET,FSTYPE,OPTIONS /volume
systemctl is-enabled volume.mount; systemctl is-active volume.mount`)
}

// bare makes the machine one on which no agent has run; the volume keeps its data.
func (m *machine) bare() {
	m.t.Helper()
	m.do("sh", "-c", `systemctl stop nodehitch-agent
systemctl disable --now volume.mount 2>/dev/null; umount /volume 2>/dev/null
systemctl disable --now nfs-server
chattr -i /volume 2>/dev/null; rmdir /volume
cd /etc/systemd/system && rm -rf volume.mount .volume* *.device.d nfs*.d/nodehitch.conf /etc/nfs.conf.d/nodehitch.conf
rm -rf /var/lib/nodehitch/agent /run/nodehitch /etc/exports.d/nodehitch.exports
systemctl daemon-reload; systemctl reset-failed; ! mountpoint -q /volume`)
}

// carries takes a program of this machine to the other one, with the libraries that
// it needs, whatever that one has. It returns how to run it there.
func (m *machine) carries(program string) []string {
	m.t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		m.t.Fatalf("%v; `make deps` installs it", err)
	}
	libraries, err := exec.CommandContext(m.t.Context(), "ldd", path).Output()
	if err != nil {
		m.t.Fatal(err)
	}
	folder := "/opt/" + program
	files := []string{path}
	loader := ""
	for field := range strings.FieldsSeq(string(libraries)) {
		if strings.HasPrefix(field, "/") {
			files = append(files, field)
			if strings.Contains(field, "/ld-linux") {
				loader = filepath.Join(folder, filepath.Base(field))
			}
		}
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err == nil {
			err = m.node.Push(m.t.Context(), filepath.Join(folder, filepath.Base(file)), 0o755, content)
		}
		if err != nil {
			m.t.Fatal(err)
		}
	}
	return []string{loader, "--library-path", folder, filepath.Join(folder, program)}
}

// The agent of a storage server is killed at calls of its first run, from the
// enrollment to the mounted volume.
func TestKilledOnAMachine(t *testing.T) {
	r := results.Begin(t, suite, "agent killed anywhere on a storage server",
		"SIGKILL at each call that makes, renames or removes a file, until the volume is mounted: systemd starts it again, and it reaches the same state with one identity and all data")
	results.LongOnly(t)
	m := newMachine(t)
	strace := m.carries("strace")
	want := m.made()
	calls := []string{"flock", "fsync", "renameat", "unlinkat", "mkdirat", "ioctl", "sendmsg", "fchmod", "connect", "fchmodat"}
	lives, killed := 0, 0
	for _, call := range calls {
		for n := 1; n <= 5; n++ {
			k := kill{call: call, n: n}
			before := m.serial()
			m.bare()
			if _, err := m.site.Hitchctl(t.Context(), "node", "reenroll", m.node.ServerID()); err != nil {
				t.Fatal(err)
			}
			lives++
			dead := m.firstRun(k, strace, before)
			if dead {
				killed++
			}
			m.do("systemctl", "start", "nodehitch-agent")
			m.await(k.String()+": the volume is mounted", func() error { return m.mounted(before) })
			m.await(k.String()+": the machine is what it is without a kill", func() error {
				if diff := cmp.Diff(want, m.made()); diff != "" {
					return errors.New(diff)
				}
				return nil
			})
			now, err := m.node.Pull(t.Context(), kept)
			lost := results.Differing(now, m.data)
			r.Lost(lost)
			if err != nil || lost > 0 {
				t.Errorf("%s: %d bytes of the data are lost (%v)", k, lost, err)
			}
			if !dead {
				break // there is no n-th call any more
			}
		}
	}
	if killed < len(calls) {
		t.Errorf("killed %d times at %d calls", killed, len(calls))
	}
	r.Figure("runs", "%d", lives)
	r.Figure("killed before the end", "%d", killed)
}

func (m *machine) serial() string {
	m.t.Helper()
	var n api.Node
	if err := m.site.JSON(m.t.Context(), &n, "get", "node", m.node.ServerID()); err != nil {
		m.t.Fatal(err)
	}
	return n.CertificateSerial
}

// firstRun runs the agent until it is killed, or has mounted the volume and is ended.
func (m *machine) firstRun(k kill, strace []string, before string) (killed bool) {
	m.t.Helper()
	argv := append([]string{"env", "GOMAXPROCS=1"}, strace...)
	argv = append(argv, "-f", "-qq", "-o", "/dev/null", "-e", "trace="+k.call,
		"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", k.call, k.n), "/usr/local/bin/nodehitch-agent", "run")
	over := make(chan error, 1)
	go func() {
		_, err := m.node.Exec(m.t.Context(), argv...)
		over <- err
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-over:
			exit := (*lab.ExecError)(nil)
			if !errors.As(err, &exit) || exit.ExitCode != -1 && exit.ExitCode != 128+9 {
				m.t.Fatalf("%s: the agent was not killed, it ended with %v", k, err)
			}
			return true
		case <-tick.C:
		}
		if m.mounted(before) == nil {
			m.do("sh", "-c", `kill -9 $(sed -n 's/^  "pid": \([0-9]*\),$/\1/p' /run/nodehitch/agent-status.json)`)
			<-over //nolint:errcheck // killed
			return false
		}
	}
}
