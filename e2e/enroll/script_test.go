package enroll

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/cloudinit"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// The script of a package, in the user_data of a machine whose agent does not come: the
// test writes the facts as an agent does.
func TestTheClustersScript(t *testing.T) {
	results.Begin(t, "enroll", "the cluster's script", "runs when its facts change and at boot, one at a time, until it succeeds")
	m := newMember(t)
	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"arrives as it is, and does not run without facts", m.arrives},
		{"runs when the facts change, and only then", m.runsOnChange},
		{"runs once at a time, and again if the facts changed meanwhile", m.runsOneAtATime},
		{"runs again after a failure, and says why", m.runsAgain},
		{"runs again after it was killed", m.survivesAKill},
		{"misses no change while a comparison has not ended", m.missesNoneOfTwo},
		{"misses no change of many", m.missesNone},
		{"does not run for ever if nothing can compare the facts", m.runsWithoutCmp},
		{"runs at boot", m.runsAtBoot},
	} {
		if !t.Run(step.name, step.do) {
			return
		}
	}
}

// memberScript logs each run, with the facts that it found. The facts are a word and what
// to do: hold waits for a line in a pipe, fail fails until a file is there.
const memberScript = `#!/bin/sh
read -r name what </etc/nodehitch/cluster.json
echo "begin $name" | tee -a /root/log
case $what in
hold) read -r _ </root/pipe ;;
fail) test -e /root/repaired || { echo "no repair, in $HOME" >&2; exit 3; } ;;
esac
echo "end $name" >>/root/log
exit
`

type member struct {
	node   lab.Node
	script []byte
}

func newMember(t *testing.T) *member {
	t.Helper()
	l := labtest.Open(t, lab.KindNspawn)
	noise := make([]byte, 5000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // never fails
	m := &member{script: append([]byte(memberScript), noise...)}
	packed, err := cloudinit.PackClusterScript(m.script)
	if err != nil {
		t.Fatal(err)
	}
	root := testca.Root(t, "root")
	userData, err := cloudinit.Render(cloudinit.Params{
		ControllerURLs: []string{"https://" + lab.Gateway.String() + ":1"}, RootPEM: root.PEM(), Pin: client.Pin(root.Cert),
		JoinToken: "0b1a5c2e-0000-4000-8000-000000000001.c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0",
	}, packed)
	if err != nil {
		t.Fatal(err)
	}
	if m.node, err = l.Nspawn(t.Context(), lab.Spec{Name: "member", UserData: userData}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			out, err := m.node.Exec(context.WithoutCancel(t.Context()), "journalctl", "-u", "nodehitch-cluster*", "--no-pager", "-n", "60")
			t.Logf("%s%v", out, err)
		}
	})
	if err := m.node.WaitCloudInit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *member) exec(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := m.node.Exec(t.Context(), argv...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// write replaces the facts in one step, as the agent does.
func (m *member) write(t *testing.T, facts string) {
	t.Helper()
	m.exec(t, "sh", "-euc", `umask 077; echo "$0" >/etc/nodehitch/.new; mv /etc/nodehitch/.new /etc/nodehitch/cluster.json`, facts)
}

// ran waits until the log of the runs is this, and empties it.
func (m *member) ran(t *testing.T, want ...string) {
	t.Helper()
	m.until(t, want)
	m.until(t, want, "dead")
	m.exec(t, "truncate", "-s", "0", "/root/log")
}

// until waits for the log, and for the service to be in a state, if one is given.
func (m *member) until(t *testing.T, want []string, state ...string) {
	t.Helper()
	text := strings.Join(want, "\n") + "\n"
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		log, _ := m.node.Exec(t.Context(), "cat", "/root/log")
		is, _ := m.node.Exec(t.Context(), "systemctl", "show", "--property=SubState", "--value", "nodehitch-cluster.service")
		if string(log) == text && (len(state) == 0 || strings.TrimSpace(string(is)) == state[0]) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the script is %s and has logged:\n%s\nwant:\n%s", is, log, text)
		case <-tick.C:
		}
	}
}

func (m *member) arrives(t *testing.T) {
	got, err := m.node.Pull(t.Context(), "/var/lib/nodehitch/cluster-script")
	if err != nil || !bytes.Equal(got, m.script) {
		t.Errorf("%v: the script has %d bytes, want the same %d", err, len(got), len(m.script))
	}
	if out, err := m.node.Exec(t.Context(), "test", "!", "-e", "/root/log"); err != nil {
		t.Errorf("it has run: %s %v", out, err)
	}
	if out := m.exec(t, "systemctl", "is-active", "nodehitch-cluster.path"); out != "active\n" {
		t.Errorf("nothing watches the facts: %s", out)
	}
	if out := m.exec(t, "systemd-analyze", "verify", "nodehitch-cluster-again.service", "nodehitch-cluster.path"); out != "" {
		t.Errorf("systemd says of the units: %s", out)
	}
}

func (m *member) runsOnChange(t *testing.T) {
	m.write(t, "one")
	m.ran(t, "begin one", "end one")
	m.exec(t, "sh", "-c", "echo >/etc/nodehitch/other; echo >>/etc/nodehitch/agent.yaml")
	m.write(t, "two")
	m.ran(t, "begin two", "end two")
}

func (m *member) runsOneAtATime(t *testing.T) {
	m.exec(t, "mkfifo", "/root/pipe")
	m.write(t, "three hold")
	m.until(t, []string{"begin three"})
	m.write(t, "four")
	m.exec(t, "systemctl", "start", "--no-block", "nodehitch-cluster.service") // somebody does not know that it runs
	m.exec(t, "sh", "-c", "echo >/root/pipe")
	m.ran(t, "begin three", "end three", "begin four", "end four")
}

func (m *member) runsAgain(t *testing.T) {
	m.write(t, "five fail")
	m.until(t, []string{"begin five"}, "auto-restart")
	for want, argv := range map[string][]string{
		"status=3":            {"systemctl", "status", "--no-pager", "nodehitch-cluster"},
		"no repair, in /root": {"journalctl", "--no-pager", "-u", "nodehitch-cluster"},
	} {
		if out, _ := m.node.Exec(t.Context(), argv...); !bytes.Contains(out, []byte(want)) {
			t.Errorf("%s does not say %q:\n%s", argv[0], want, out)
		}
	}
	m.exec(t, "touch", "/root/repaired")
	m.ran(t, "begin five", "begin five", "end five")
}

func (m *member) survivesAKill(t *testing.T) {
	m.write(t, "six hold")
	m.until(t, []string{"begin six"})
	m.exec(t, "systemctl", "kill", "--signal=KILL", "nodehitch-cluster.service")
	m.until(t, []string{"begin six", "begin six"})
	m.exec(t, "sh", "-c", "echo >/root/pipe")
	m.ran(t, "begin six", "begin six", "end six")
}

// The last of many changes is what the script ran with last, whenever they came.
func (m *member) missesNone(t *testing.T) {
	const many = 60
	m.exec(t, "sh", "-euc", `for i in $(seq "$0"); do echo "change$i" >/etc/nodehitch/.new; mv /etc/nodehitch/.new /etc/nodehitch/cluster.json; sleep 0.0$((i % 10)); done`, fmt.Sprint(many))
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		log, _ := m.node.Exec(ctx, "cat", "/root/log")
		if strings.HasSuffix(string(log), fmt.Sprintf("end change%d\n", many)) {
			t.Logf("%d runs for %d changes", strings.Count(string(log), "end"), many)
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the last runs are:\n%s", log)
		case <-tick.C:
		}
	}
	// The last change may be run with twice: once at its event, and once because it came
	// while the script ran.
	m.exec(t, "timeout", "60", "sh", "-c", `while test -n "$(systemctl list-jobs --no-legend)"; do sleep 0.1; done`)
	m.exec(t, "truncate", "-s", "0", "/root/log")
	if result := m.exec(t, "systemctl", "show", "--property=Result", "--value", again); result != "success\n" {
		t.Errorf("what runs the script again has ended with %s", result)
	}
}

// What compares the facts has started the script, and is slow to end: the run that it has
// started is short, and the facts change meanwhile.
func (m *member) missesNoneOfTwo(t *testing.T) {
	const slow = "/usr/local/bin/systemctl"
	m.exec(t, "sh", "-euc", `printf '#!/bin/sh\n/usr/bin/systemctl "$@" || exit\ncase $* in start*cluster.service) sleep 5 ;; esac\n' >"$0"; chmod 755 "$0"`, slow)
	m.write(t, "nine hold")
	m.until(t, []string{"begin nine"})
	m.write(t, "ten hold")
	m.exec(t, "sh", "-c", "echo >/root/pipe")
	m.until(t, []string{"begin nine", "end nine", "begin ten"})
	m.write(t, "eleven")
	m.exec(t, "sh", "-c", "echo >/root/pipe")
	m.ran(t, "begin nine", "end nine", "begin ten", "end ten", "begin eleven", "end eleven")
	m.exec(t, "rm", slow)
}

// again is the unit that runs the script again if the facts changed meanwhile.
const again = "nodehitch-cluster-again.service"

func (m *member) runsWithoutCmp(t *testing.T) {
	m.exec(t, "mv", "/usr/bin/cmp", "/root/cmp")
	m.write(t, "eight")
	m.until(t, []string{"begin eight", "end eight"})
	if out, err := m.node.Exec(t.Context(), "sh", "-c", `timeout 60 sh -c 'until systemctl is-failed "$0"; do sleep 0.1; done' "$0"`, again); err != nil {
		t.Errorf("nothing says that the facts cannot be compared: %s %v", out, err)
	}
	m.ran(t, "begin eight", "end eight")
	m.exec(t, "mv", "/root/cmp", "/usr/bin/cmp")
	m.exec(t, "systemctl", "reset-failed", again)
}

func (m *member) runsAtBoot(t *testing.T) {
	m.write(t, "seven")
	m.ran(t, "begin seven", "end seven")
	if err := m.node.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.ran(t, "begin seven", "end seven")
}
