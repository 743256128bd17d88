package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/plain"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// run runs a command line as the shell would.
func runs(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, failure bytes.Buffer
	code = execute(t.Context(), args, &out, &failure)
	return code, out.String(), failure.String()
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "node.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	nothing = `{"apiVersion":"nodehitch/v1","epoch":1,"generation":1,"role":"worker"}`
	// absent names a disk that no machine has.
	absent = `{"apiVersion":"nodehitch/v1","epoch":1,"generation":1,"role":"storage","storage":{"exports":[],"volumes":[
		{"volumeId":"00000000-dead-4000-8000-000000000001","mountPath":"/nodehitch-test","filesystem":"ext4","filesystemUuid":"00000000-dead-5000-8000-000000000001"}]}}`
)

func TestMistakesOfTheCaller(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no such command":  {[]string{"aply"}, `no command "aply"`},
		"no such flag":     {[]string{"apply", "--fiel", "x"}, "--fiel"},
		"no file":          {[]string{"apply"}, "--filename is missing"},
		"file is absent":   {[]string{"apply", "--filename", "/nonexistent/x"}, "/nonexistent/x"},
		"an argument":      {[]string{"status", "x"}, "x"},
		"another output":   {[]string{"apply", "--filename", "x", "-o", "yaml"}, "table or json"},
		"no volume id":     {[]string{"apply", "--filename", "x", "--permit-format", "/dev/vdb"}, "UUID in lower case"},
		"another volume":   {[]string{"apply", "--filename", write(t, absent), "--permit-format", "00000000-dead-4000-8000-000000000002"}, "has no volume with this id"},
		"no configuration": {[]string{"run", "--config", "/nonexistent/agent.yaml"}, "user_data writes it"},
		"all faults":       {[]string{"apply", "--filename", write(t, `{"apiVersion":"v1","role":"boss","storge":{}}`)}, "/storge"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := runs(t, c.args...)
			if code != exitUsage || stdout != "" || !strings.Contains(stderr, c.want) {
				t.Errorf("exit %d, stdout %q, stderr %q; want %q", code, stdout, stderr, c.want)
			}
		})
	}
}

func TestVersionAndCompletion(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}} {
		if code, stdout, _ := runs(t, args...); code != exitOK || stdout != "nodehitch-agent version devel\n" {
			t.Errorf("%v: exit %d, %q", args, code, stdout)
		}
	}
	if code, stdout, _ := runs(t, "completion", "bash"); code != exitOK || !strings.Contains(stdout, "bash completion") {
		t.Errorf("completion: exit %d, %q", code, stdout)
	}
}

func TestApply(t *testing.T) {
	where := []string{"--state-directory", filepath.Join(t.TempDir(), "state"), "--lock-file", filepath.Join(t.TempDir(), "lock")}
	apply := func(text string, args ...string) (int, string, string) {
		return runs(t, append(append([]string{"apply", "--filename", write(t, text)}, where...), args...)...)
	}
	if code, stdout, stderr := apply(nothing); code != exitOK || !strings.Contains(stdout, "Ready") || stderr != "" {
		t.Errorf("nothing to do: exit %d, %q, %q", code, stdout, stderr)
	}
	code, stdout, _ := apply(absent, "--dry-run", "-o", "json")
	var got outcome
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	if code != exitFailed || got.Converged || !got.DryRun || len(got.Steps) != 2 || got.Conditions[0].Status == api.ConditionTrue {
		t.Errorf("a disk that is absent: exit %d, %+v", code, got)
	}
	lock, err := state.TakeLock(where[3], "nodehitch-agent run")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release() //nolint:errcheck // the test ends
	code, _, stderr := apply(nothing)
	if code != exitFailed || !strings.Contains(stderr, "nodehitch-agent run (pid ") || !strings.Contains(stderr, "systemctl stop") {
		t.Errorf("locked: exit %d, %q", code, stderr)
	}
	if code, _, _ := apply(nothing, "--dry-run"); code != exitOK {
		t.Error("a dry run needs the lock")
	}
}

// asNobody runs f without rights, on a thread of its own that ends with f.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); errno != 0 {
			done <- errno
			return
		}
		f()
		done <- nil
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestApplyNeedsRootForADryRunToo(t *testing.T) {
	// Outside of t.TempDir, which is root's alone.
	doc, err := os.CreateTemp("", "node-*.json")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(doc.Name()) })
	if _, err := doc.WriteString(absent); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(doc.Chmod(0o644), doc.Close()); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--dry-run"}, nil} {
		asNobody(t, func() {
			code, stdout, stderr := runs(t, append([]string{"apply", "--filename", doc.Name()}, args...)...)
			if code != exitFailed || stdout != "" || !strings.Contains(stderr, "run the command as root") {
				t.Errorf("%v: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
			}
		})
	}
}

func TestADryRunThatSystemdDoesNotAnswer(t *testing.T) {
	silent := converge.Result{Condition: "B", Err: errors.Join(errors.New("x"), &host.NoSystemdError{Err: errors.New("no bus")})}
	for name, c := range map[string]struct {
		results []converge.Result
		want    string
	}{
		"all is known":   {[]converge.Result{{Condition: "A"}}, "nothing would be done\n\n"},
		"one is not":     {[]converge.Result{{Condition: "A"}, silent}, "systemd does not answer, so it is not known what would be done for B\n\n"},
		"one has a plan": {[]converge.Result{{Condition: "A", Planned: []converge.Action{{Summary: "mount"}}}, silent}, "would do: A: mount\nsystemd does not answer, so it is not known what would be done for B\n\n"},
	} {
		var out bytes.Buffer
		printPlan(&out, converge.Report{Results: c.results})
		if out.String() != c.want {
			t.Errorf("%s: got %q, want %q", name, out.String(), c.want)
		}
	}
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		t.Skip("this machine has systemd, so what follows cannot be seen here")
	}
	doc := write(t, `{"apiVersion":"nodehitch/v1","epoch":1,"generation":1,"role":"worker","registries":[{"server":"127.0.0.1:1","scheme":"http"}]}`)
	code, stdout, _ := runs(t, "apply", "--dry-run", "--filename", doc, "--state-directory", t.TempDir())
	if code != exitFailed || strings.Contains(stdout, "nothing would be done") || !strings.Contains(stdout, "not known what would be done for RegistriesConnected") {
		t.Errorf("exit %d, %q", code, stdout)
	}
}

func TestApplyInspectsTheClusterOfTheGivenKubeconfig(t *testing.T) {
	doc := write(t, `{"apiVersion":"nodehitch/v1","epoch":1,"generation":1,"role":"master",
		"persistentVolumes":{"state":"present","servers":["10.10.0.5"],"manifests":[]}}`)
	for kubeconfig, args := range map[string][]string{
		"/nonexistent/admin.conf":    {"--kubeconfig", "/nonexistent/admin.conf"},
		"/etc/kubernetes/admin.conf": nil,
	} {
		code, stdout, _ := runs(t, append([]string{"apply", "--dry-run", "--filename", doc}, args...)...)
		if code != exitFailed || !strings.Contains(stdout, kubeconfig+" does not exist") {
			t.Errorf("exit %d, %q; want %s in it", code, stdout, kubeconfig)
		}
	}
}

func TestADryRunSaysOnceWhatWouldBeDone(t *testing.T) {
	found := []api.Condition{
		{Type: "A", Reason: api.ReasonConverging, Message: "left to do: mount"},
		{Type: "B", Reason: api.ReasonForeignData, Message: "a partition table"},
	}
	got := brief(applyOptions{dryRun: true}, found)
	if strings.Contains(got[0].Message, "mount") || !cmp.Equal(got[1], found[1]) || !strings.Contains(found[0].Message, "mount") {
		t.Errorf("got %+v of %+v", got, found)
	}
	if got := brief(applyOptions{}, found); !cmp.Equal(got, found) {
		t.Errorf("not a dry run: %+v", got)
	}
}

func TestHelpHasExamples(t *testing.T) {
	for _, command := range []string{"run", "apply", "status", "install"} {
		if code, stdout, _ := runs(t, command, "--help"); code != exitOK || !strings.Contains(stdout, "Examples:\n  nodehitch-agent "+command) {
			t.Errorf("%s: exit %d, %q", command, code, stdout)
		}
	}
}

func TestStatusWithoutADaemon(t *testing.T) {
	code, _, stderr := runs(t, "status", "--status-file", "/nonexistent/status.json")
	if code != exitFailed || !strings.Contains(stderr, "systemctl status nodehitch-agent") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

// A status file of before, or one that another program wrote.
func TestWhatAStatusSaysDoesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "status.json")
	s := status.Status{AgentVersion: "v1", NodeID: "\x1b[2J", Node: api.NodeStatus{Conditions: []api.Condition{
		{Type: "Ready", Status: api.ConditionFalse, Reason: api.ReasonPortInUse, Message: "process 7 (\u202e\u009b31m)"}}}}
	if err := status.Save(file, s); err != nil {
		t.Fatal(err)
	}
	for _, o := range []string{"table", "json"} {
		code, stdout, _ := runs(t, "status", "--status-file", file, "-o", o)
		if code != exitOK || plain.Text(stdout) != stdout || !strings.Contains(stdout, "process 7 (??31m)") {
			t.Errorf("%s: %d, %q", o, code, stdout)
		}
	}
	if code, _, stderr := runs(t, "apply", "-f", "/nonexistent/\x1b[2J"); code == exitOK || plain.Text(stderr) != stderr {
		t.Errorf("%d, %q", code, stderr)
	}
}

func TestStatusForPeople(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) *time.Time { past := now.Add(-ago); return &past }
	waiting := status.Status{
		AgentVersion: "v1.2.3", PID: 1, StartedAt: *at(time.Hour), NodeID: "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f", IdentitySource: "cloud-init",
		StoppedAt: at(time.Minute), Origin: status.FromController, Role: api.RoleStorage,
		Controller: status.Controller{URL: "https://controller:8443", URLs: []string{"https://moved:8443", "https://controller:8443"},
			Learned: []string{"https://moved:8443"}, LastContact: at(20 * time.Minute), LastError: "connection refused",
			NextAttempt: at(-time.Minute), CertificateSerial: "4af3", CertificateNotAfter: at(-20 * time.Hour)},
		Node: api.NodeStatus{ObservedGeneration: 5, AppliedGeneration: 4, LastFailedGeneration: 5, LastFailedCondition: "VolumesMounted", Conditions: []api.Condition{
			{Type: "VolumesMounted", Status: api.ConditionFalse, Reason: api.ReasonForeignData, Message: "volume v holds an xfs filesystem", LastTransitionTime: *at(time.Hour)},
			{Type: "ExportsServed", Status: api.ConditionTrue, Reason: api.ReasonServed, LastTransitionTime: *at(time.Hour)},
			{Type: "Ready", Status: api.ConditionFalse, Reason: api.ReasonNotReady, Message: "VolumesMounted is False (ForeignData)", LastTransitionTime: *at(time.Hour)},
		}},
	}
	unenrolled := status.Status{AgentVersion: "v1.2.3", PID: 1, StartedAt: *at(time.Hour), StoppedAt: at(0),
		Controller: status.Controller{LastError: "no topology expects this server (403)", NextAttempt: at(-3 * time.Second)}}
	expired := waiting
	expired.Controller.CertificateNotAfter = at(26 * time.Hour)
	expired.Node = api.NodeStatus{AppliedGeneration: 4, ObservedGeneration: 4, AgentUpgrade: &api.AgentUpgrade{
		ManagedBy: api.ManagedByController, Reason: api.UpgradeRolledBack, Version: "v1.2.4", Message: "the build is refused: it was started 2 times without becoming healthy"}}
	proof := unenrolled
	proof.Controller.Waiting = "the controller wants proof that this machine is the server 6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f, and the metadata service has to give it: …"
	for name, s := range map[string]status.Status{"waiting": waiting, "proof": proof, "unenrolled": unenrolled, "expired": expired} {
		var got bytes.Buffer
		if err := showStatus(&got, &s, now); err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", "status-"+name+".txt")
		if *update {
			if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
