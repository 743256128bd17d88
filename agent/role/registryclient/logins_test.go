package registryclient_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
)

func auth(username, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(username + ":" + password))
}

func TestLoginIsWrittenIfItIsAccepted(t *testing.T) {
	r := machine(t, docker).connect(login(locked, "Jörg", "pässwört"))
	r.world.set(locked, "pässwört")
	r.expect(connected, "1 registry connected")
	for _, path := range []string{dockerJSON, kubelet} {
		if f := r.m.Files[path]; f.Mode != 0o600 || !strings.Contains(f.Content, auth("Jörg", "pässwört")) {
			t.Errorf("%s: %+v", path, f)
		}
	}
	r.idle()
	r.connect().expect("True Removed")
	if r.file(dockerJSON)+r.file(kubelet) != "" {
		t.Errorf("left: %+v", r.snapshot())
	}
	r.idle()
}

func TestOthersLoginsAreKept(t *testing.T) {
	const others = `{"auths": {"mine.example.com": {"auth": "bWU6bWU="}}, "detachKeys": "ctrl-x"}`
	r := machine(t, docker, hosttest.WithFile(dockerJSON, others, 0o640)).connect(login(locked, "user01", "right"))
	r.expect(connected)
	f := r.m.Files[dockerJSON]
	if !strings.Contains(f.Content, "bWU6bWU=") || !strings.Contains(f.Content, "ctrl-x") || f.Mode != 0o600 {
		t.Errorf("%+v", f)
	}
	r.connect().expect("True Removed")
	if got := r.file(dockerJSON); got != others {
		t.Errorf("left %s", got)
	}
}

// The operator logged in by hand, to the same registry and as the same user.
func TestOwnersOwnLoginStays(t *testing.T) {
	owner := `{"auths":{"` + locked + `":{"auth":"` + auth("user01", "right") + `"}}}`
	r := machine(t, docker, hosttest.WithFile(dockerJSON, owner, 0o644)).connect(login(locked, "user01", "right"))
	r.expect(connected)
	if r.m.Files[dockerJSON].Mode != 0o600 {
		t.Error("a password is readable to others")
	}
	r.connect().expect("True Removed")
	if got := r.file(dockerJSON); got != owner {
		t.Errorf("left %q", got)
	}
	if r.file(kubelet) != "" {
		t.Error("our own login is left")
	}
}

// plain asks nobody for a login, so that nothing tells whether this one is right.
func TestALoginThatIsNotAskedForIsSaidToBeUntried(t *testing.T) {
	r := machine(t, docker).connect(login(plain, "user01", "right"), open(locked))
	r.expect(connected, plain+" answers without a login", "without having been tried")
	if !strings.Contains(r.file(kubelet), auth("user01", "right")) {
		t.Error("the login is not written")
	}
	if n := r.world.logins(plain); n != 0 {
		t.Errorf("the login was sent %d times, and nobody asked for it", n)
	}
	r.idle()
}

func TestWrongPassword(t *testing.T) {
	r := machine(t, docker).connect(login(locked, "user01", "falsch"), open(plain))
	report := r.expect("False Unauthorized", locked, "user01", "401", "authentication required")
	if report.FailedCondition == "" {
		t.Error("it is not terminal")
	}
	if strings.Contains(r.file(dockerJSON)+r.file(kubelet), locked) {
		t.Error("a login that was refused is written")
	}
	if len(r.m.Containers.Insecure) != 2 {
		t.Errorf("the other registry waits for this one: %q", r.m.Containers.Insecure)
	}
	r.idle()
	for range 5 { // accounts are locked out after a few
		r.expect("False Unauthorized", "authentication required")
		r.now = r.now.Add(time.Minute)
	}
	if n := r.world.logins(locked); n != 1 {
		t.Errorf("the refused login was sent %d times", n)
	}
	r.now = r.now.Add(10 * time.Minute)
	r.expect("False Unauthorized")
	if n := r.world.logins(locked); n != 2 {
		t.Errorf("after ten minutes it was sent %d times, want 2", n)
	}
	r.connect(login(locked, "user01", "right"), open(plain)).expect(connected) // without any wait
	r.idle()
}

func TestChangedPassword(t *testing.T) {
	r := machine(t, docker).connect(login(locked, "user01", "right"))
	r.expect(connected)
	old := r.file(kubelet)
	r.world.set(locked, "new")
	r.expect("False Unauthorized")
	r.connect(login(locked, "user01", "wrong too")).expect("False Unauthorized")
	if r.file(kubelet) != old {
		t.Error("a login that was refused took the place of one that was taken")
	}
	r.connect(login(locked, "user01", "new")).expect(connected)
	if !strings.Contains(r.file(kubelet), auth("user01", "new")) {
		t.Error(r.file(kubelet))
	}
	r.idle()
	r.connect(open(locked)).expect(connected, "ask for a login")
	if r.file(dockerJSON)+r.file(kubelet) != "" {
		t.Errorf("a login that is no longer given is left: %+v", r.snapshot())
	}
}

func TestRegistryThatComesLater(t *testing.T) {
	r := machine(t, docker).connect(login(locked, "user01", "right"), open(plain))
	r.world.remove(locked)
	report := r.expect("False Unreachable", locked, "502", "no route")
	if report.FailedCondition != "" {
		t.Error("it is terminal")
	}
	if r.file(kubelet) != "" || !strings.Contains(r.file(daemonJSON), locked) {
		t.Errorf("%+v", r.snapshot())
	}
	r.idle()
	r.world.set(locked, "right")
	r.expect(connected)
	r.idle()
}

func TestTheMostSevereProblemComesFirst(t *testing.T) {
	r := machine(t, docker).connect(open("10.0.0.1:5000"), login(locked, "user01", "falsch"), open(plain), open("10.0.0.2:5000"))
	r.m.Containers.Running = false
	report := r.expect("False Unauthorized", "10.0.0.1:5000", "10.0.0.2:5000", "container engine does not answer")
	message := report.Conditions[0].Message
	if !strings.HasPrefix(message, locked) || strings.Contains(message, plain+" ") {
		t.Errorf("got %s", message)
	}
}

func TestACredentialHelperIsReported(t *testing.T) {
	r := machine(t, docker, file(dockerJSON, `{"credsStore": "pass"}`)).connect(login(locked, "user01", "right"))
	r.expect(connected, `credential helper "pass"`, locked)
	r.idle()
}

func TestLoginFilesThatCannotBeRead(t *testing.T) {
	r := machine(t, docker, file(dockerJSON, `{"auths": [}`)).connect(login(locked, "user01", "right"))
	r.expect("False EngineConfigInvalid", dockerJSON, "is not changed")
	if r.file(dockerJSON) != `{"auths": [}` || !strings.Contains(r.file(kubelet), locked) {
		t.Errorf("%+v", r.snapshot())
	}
}

// An operator who removes a login and adds it again wants it to be tried.
func TestARefusedLoginThatIsGivenAgain(t *testing.T) {
	r := machine(t, docker).connect(login(locked, "user01", "late"))
	r.expect("False Unauthorized")
	r.world.set(locked, "late")
	r.expect("False Unauthorized") // within ten minutes it is not sent again
	r.connect().expect("True Removed")
	r.connect(login(locked, "user01", "late")).expect(connected)
}

// TestKubeletsRootDirectory: kubelet looks for logins nowhere else.
func TestKubeletsRootDirectory(t *testing.T) {
	r := machine(t, docker).connect(login(locked, "user01", "right"))
	r.expect(connected)
	hosttest.Runs("kubelet.service", "/usr/bin/kubelet", "--root-dir=/data/kubelet")(r.m)
	r.expect(connected)
	if !strings.Contains(r.file("/data/kubelet/config.json"), locked) || r.file(kubelet) != "" {
		t.Errorf("%+v", r.snapshot())
	}
	r.idle()
	r.m.Units["kubelet.service"].Argv = nil // it restarts
	r.idle()
	r.connect().expect("True Removed")
	if r.file("/data/kubelet/config.json") != "" {
		t.Errorf("left: %+v", r.snapshot())
	}
}
