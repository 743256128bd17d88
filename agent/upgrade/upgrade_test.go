package upgrade

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/backoff"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/version"
)

// machine has this test's binary as its agent: a build that tells its version and tests
// itself.
type machine struct {
	*Upgrader
	t        *testing.T
	waits    string
	reported []api.AgentUpgrade
	woken    int
	followed int
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	d, err := state.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	for _, name := range identityFiles {
		must(t, d.Write(name, []byte(identity)))
	}
	dir := t.TempDir()
	m := &machine{t: t}
	binary := filepath.Join(dir, "nodehitch-agent")
	copyFile(t, "/proc/self/exe", binary, "")
	must(t, os.WriteFile(filepath.Join(dir, "agent.yaml"), []byte("good"), 0o600))
	m.Upgrader = New(Options{
		Binary: binary, Guard: Previous(binary), ConfigFile: filepath.Join(dir, "agent.yaml"), State: d, Probation: time.Minute,
		Waits:   func() (string, error) { return m.waits, nil },
		Install: func(context.Context) error { m.followed++; return nil },
		Log:     slog.New(slog.DiscardHandler),
	})
	m.open()
	return m
}

func (m *machine) open() {
	m.t.Helper()
	must(m.t, m.Open(func(u api.AgentUpgrade) { m.reported = append(m.reported, u) }, func() { m.woken++ }))
}

// again is the next process of the same build.
func (m *machine) again() {
	m.t.Helper()
	m.Upgrader = New(m.Options)
	m.open()
}

// copyFile copies a program; with something at its end, it is another build.
func copyFile(t *testing.T, from, to, end string) {
	t.Helper()
	content, err := os.ReadFile(from)
	must(t, err)
	must(t, os.MkdirAll(filepath.Dir(to), 0o700))
	must(t, os.WriteFile(to, append(content, end...), 0o755))
}

// arrived makes a build the wanted one, as if it had been downloaded.
func (m *machine) arrived(end string) *api.WantedAgent {
	m.t.Helper()
	part := filepath.Join(m.store.Directory, "part")
	copyFile(m.t, "/proc/self/exe", part, end)
	sum, err := digestOf(part)
	must(m.t, err)
	info, err := os.Stat(part)
	must(m.t, err)
	w := &api.WantedAgent{Version: version.Version, SHA256: sum, SizeBytes: info.Size()}
	must(m.t, os.Rename(part, m.store.Path(reference(w))))
	return w
}

func (m *machine) last() api.AgentUpgrade {
	if len(m.reported) == 0 {
		return api.AgentUpgrade{}
	}
	return m.reported[len(m.reported)-1]
}

func (m *machine) wantReason(reason string) {
	m.t.Helper()
	if got := m.last(); got.Reason != reason {
		m.t.Errorf("it reports %+v, want %s", got, reason)
	}
}

// looks is one turn of Run.
func (m *machine) looks(ctx context.Context) {
	if w, _ := m.next(); w != nil {
		m.prepare(ctx, w, &backoff.Backoff{Min: time.Hour, Max: time.Hour, Factor: 1})
	}
}

func TestASwitchComesBetweenTwoPasses(t *testing.T) {
	m := newMachine(t)
	w := m.arrived("another build")
	m.Want(w)
	doc, newer := &api.NodeConfig{Generation: 1}, &api.NodeConfig{Generation: 2}
	m.Passed(doc, nil)
	if err := m.Switch(doc, true); err != nil {
		t.Fatalf("nothing is verified yet: %v", err)
	}
	m.looks(t.Context())
	m.wantReason(api.UpgradeSwitching)
	if m.woken != 1 {
		t.Errorf("%d passes were asked for", m.woken)
	}
	for why, s := range map[string]struct {
		doc       *api.NodeConfig
		connected bool
		waits     string
	}{
		"the controller does not answer":      {doc, false, ""},
		"a pass for the newest configuration": {newer, true, ""},
		"the format of volume 7":              {doc, true, "the format of volume 7"},
	} {
		m.waits = s.waits
		if err := m.Switch(s.doc, s.connected); err != nil || !strings.Contains(m.last().Message, why) {
			t.Errorf("%s: %v, it reports %+v", why, err, m.last())
		}
	}
	if left, _ := load(m.State); left.To.SHA256 != "" {
		t.Fatal("it has switched while it had to wait")
	}
	m.waits = ""
	if err := m.Switch(doc, true); !errors.Is(err, ErrSwitched) {
		t.Fatalf("got %v", err)
	}
	there, err := digestOf(m.Binary)
	must(t, err)
	if r, err := load(m.State); err != nil || there != w.SHA256 || !r.open() || r.To.SHA256 != w.SHA256 {
		t.Errorf("the binary is %s, the record %+v, %v", there, r, err)
	}
}

func TestABuildThatMayNotReplaceTheAgent(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*machine, *api.WantedAgent)
		words  string
	}{
		"another version":         {func(_ *machine, w *api.WantedAgent) { w.Version = "v7" }, "expected v7"},
		"another architecture":    {func(m *machine, w *api.WantedAgent) { m.alter(w, 18, 0xb7) }, "no ELF program for this machine"},
		"32 bits":                 {func(m *machine, w *api.WantedAgent) { m.alter(w, 4, 1) }, "no ELF program for this machine"},
		"cannot read agent.yaml":  {func(m *machine, _ *api.WantedAgent) { must(m.t, os.WriteFile(m.ConfigFile, []byte("bad"), 0o600)) }, "self-test: exit status 1: the configuration cannot be read"},
		"no unit guards it":       {func(m *machine, _ *api.WantedAgent) { m.Guard = "" }, "nodehitch-agent install"},
		"another binary is there": {func(m *machine, _ *api.WantedAgent) { copyFile(m.t, "/proc/self/exe", m.Binary, "an operator's") }, "restart the agent first"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			w := m.arrived("another build")
			c.change(m, w)
			before, err := digestOf(m.Binary)
			must(t, err)
			m.Want(w)
			m.looks(t.Context())
			if err := m.Switch(nil, true); err != nil {
				t.Fatal(err)
			}
			if u := m.last(); u.Reason != api.UpgradeFailed || !strings.Contains(u.Message, c.words) {
				t.Errorf("it reports %+v, want %q", u, c.words)
			}
			if after, err := digestOf(m.Binary); err != nil || after != before {
				t.Error("the binary was replaced")
			}
			if _, err := os.Stat(m.State.Path(recordFile)); err == nil {
				t.Error("a record is left")
			}
		})
	}
}

// alter changes a byte of the build that has arrived.
func (m *machine) alter(w *api.WantedAgent, at int, to byte) {
	m.t.Helper()
	path := m.store.Path(reference(w))
	content, err := os.ReadFile(path)
	must(m.t, err)
	content[at] = to
	must(m.t, os.WriteFile(path, content, 0o600))
	w.SHA256, err = digestOf(path)
	must(m.t, err)
	must(m.t, os.Rename(path, m.store.Path(reference(w))))
}

func TestWhoReplacesTheBinary(t *testing.T) {
	w := &api.WantedAgent{Version: "v9", SHA256: strings.Repeat("a", 64), SizeBytes: 7}
	for name, c := range map[string]struct {
		binary   string
		disabled bool
		want     api.AgentUpgrade
	}{
		"a package":   {"/usr/bin/nodehitch-agent", true, api.AgentUpgrade{ManagedBy: api.ManagedByPackage, Reason: api.UpgradeManagedByPackage, Version: "v9"}},
		"an operator": {"/usr/local/bin/nodehitch-agent", true, api.AgentUpgrade{ManagedBy: api.ManagedByNone, Reason: api.UpgradeDisabled, Version: "v9"}},
	} {
		m := newMachine(t)
		m.Binary, m.Disabled = c.binary, c.disabled
		m.again()
		m.Want(w)
		m.looks(t.Context())
		got := m.last()
		got.Message = ""
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestARefusedBuildIsNotTakenAgain(t *testing.T) {
	m := newMachine(t)
	w := m.arrived("another build")
	r := Record{}
	r.refuse(Build{w.Version, w.SHA256}, "it ended at its start", time.Now())
	must(t, save(m.State, r))
	m.again()
	m.Want(w)
	m.looks(t.Context())
	m.wantReason(api.UpgradeRolledBack)
	if !strings.Contains(m.last().Message, "it ended at its start") || m.woken != 0 {
		t.Errorf("it reports %+v", m.last())
	}
	m.Want(m.arrived("a third build"))
	m.looks(t.Context())
	m.wantReason(api.UpgradeSwitching)
	if r := m.last().Refused; len(r) != 1 || r[0].Version != w.Version || r[0].Sha256 != w.SHA256 {
		t.Errorf("it reports that it refuses %+v", r)
	}
}

func TestABuildThatNobodyCouldJudgeIsTriedAgainLater(t *testing.T) {
	m := newMachine(t)
	must(t, m.identify())
	w := m.arrived("another build")
	r := Record{From: m.own, To: Build{w.Version, w.SHA256}, Outcome: api.UpgradeRolledBackUnjudged, Unjudged: 2, RetryAt: time.Now().Add(time.Hour)}
	must(t, save(m.State, r))
	m.again()
	m.wantReason(api.UpgradeRolledBackUnjudged)
	m.Want(w)
	m.looks(t.Context())
	m.wantReason(api.UpgradeRolledBackUnjudged)
	if _, wait := m.next(); wait < 59*time.Minute {
		t.Errorf("tried again in %v", wait)
	}
	r.RetryAt = time.Now()
	must(t, save(m.State, r))
	m.again()
	m.Want(m.arrived("another build"))
	m.looks(t.Context())
	if err := m.Switch(nil, true); !errors.Is(err, ErrSwitched) {
		t.Fatal(err)
	}
	if r, err := load(m.State); err != nil || r.Unjudged != 2 {
		t.Errorf("the record is %+v, %v; want that it counts", r, err)
	}
}

// The new build of a record is this process.
func onProbation(t *testing.T, before ...expectation) *machine {
	t.Helper()
	m := newMachine(t)
	must(t, m.identify())
	must(t, keepIdentity(m.State))
	at, err := now()
	must(t, err)
	r := Record{From: Build{"v0", strings.Repeat("0", 64)}, To: m.own, ProbationSeconds: 60, Starts: 1, Before: before}
	r.begin(at, time.Minute)
	r.Starts = 1
	must(t, save(m.State, r))
	m.again()
	m.wantReason(api.UpgradeProbation)
	return m
}

func TestABuildIsHealthyAfterAPollAndAPass(t *testing.T) {
	doc := &api.NodeConfig{Generation: 3, NFSClient: &struct{}{}}
	good := []api.Condition{{Type: api.ConditionNFSClientInstalled, Status: api.ConditionTrue}}
	before, err := expect(doc, good)
	must(t, err)
	bad := []api.Condition{{Type: api.ConditionNFSClientInstalled, Status: api.ConditionFalse, Reason: api.ReasonInternalError}}
	for name, c := range map[string]struct {
		events  func(*machine)
		healthy bool
	}{
		"a poll and a pass":          {func(m *machine) { m.Polled(); m.Passed(doc, good) }, true},
		"a pass and then a poll":     {func(m *machine) { m.Passed(doc, good); m.Polled() }, true},
		"no poll":                    {func(m *machine) { m.Passed(doc, good) }, false},
		"no pass":                    {func(m *machine) { m.Polled() }, false},
		"a condition is worse":       {func(m *machine) { m.Polled(); m.Passed(doc, bad) }, false},
		"a condition is missing":     {func(m *machine) { m.Polled(); m.Passed(doc, nil) }, false},
		"worse, then as before":      {func(m *machine) { m.Polled(); m.Passed(doc, bad); m.Passed(doc, good) }, true},
		"the section is not desired": {func(m *machine) { m.Polled(); m.Passed(&api.NodeConfig{}, nil) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := onProbation(t, before...)
			c.events(m)
			select {
			case <-m.healthy:
				if !c.healthy {
					t.Error("it is healthy")
				}
			default:
				if c.healthy {
					t.Errorf("it is not healthy: %+v", m.last())
				}
			}
		})
	}
}

func TestTheProbationEnds(t *testing.T) {
	m := onProbation(t)
	m.Passed(&api.NodeConfig{}, nil)
	m.Polled()
	must(t, m.prove(t.Context()))
	if left, _ := filepath.Glob(m.State.Path("upgrade*")); len(left) != 0 || m.followed != 1 || m.OnProbation() {
		t.Errorf("left is %q, the unit was brought along %d times", left, m.followed)
	}
	m = onProbation(t)
	m.record.Until.At = 0
	if err := m.prove(t.Context()); !errors.Is(err, ErrNotHealthy) || m.followed != 0 || !m.OnProbation() {
		t.Errorf("late: %v, %d", err, m.followed)
	}
}

// `systemctl restart` of a build on probation is no failed start.
func TestAStopIsNoFailedStart(t *testing.T) {
	m := onProbation(t)
	must(t, m.Stopped())
	if r, err := load(m.State); err != nil || r.Starts != 0 || !r.open() {
		t.Errorf("%+v, %v", r, err)
	}
}

// What a killed process leaves is cleared by the next one.
func TestOpenEndsWhatIsOver(t *testing.T) {
	other := Build{"v0", strings.Repeat("0", 64)}
	for name, c := range map[string]struct {
		record func(own Build) Record
		want   error
		left   bool
	}{
		"killed before the rename": {func(own Build) Record { return Record{From: own, To: other} }, nil, false},
		"replaced by an operator":  {func(Build) Record { return Record{From: other, To: Build{"v2", strings.Repeat("2", 64)}} }, nil, false},
		"this build is taken back": {func(own Build) Record { return Record{From: other, To: own, Outcome: api.UpgradeRolledBack} }, ErrRolledBack, true},
		"the other is taken back":  {func(own Build) Record { return Record{From: own, To: other, Outcome: api.UpgradeRolledBack} }, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			must(t, m.identify())
			must(t, save(m.State, c.record(m.own)))
			m.Upgrader = New(m.Options)
			err := m.Open(func(api.AgentUpgrade) {}, func() {})
			if !errors.Is(err, c.want) || err != nil && c.want == nil {
				t.Errorf("got %v", err)
			}
			if _, err := os.Stat(m.State.Path(recordFile)); (err == nil) != c.left {
				t.Errorf("the record: %v", err)
			}
		})
	}
}
