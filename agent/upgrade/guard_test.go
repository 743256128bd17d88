package upgrade

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/shared/api"
)

// scene is a machine whose agent has switched to another build.
type scene struct {
	t        *testing.T
	dir      string
	state    *state.Directory
	answers  bool
	asked    int
	later    []time.Duration
	log      bytes.Buffer
	from, to Build
}

const identity = "the key and its certificate"

func switched(t *testing.T) *scene {
	t.Helper()
	d, err := state.Open(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, dir: t.TempDir(), state: d, answers: true}
	s.from = s.build("nodehitch-agent", "v1")
	s.to = s.build("download", "v2")
	for _, name := range identityFiles {
		if err := d.Write(name, []byte(identity)); err != nil {
			t.Fatal(err)
		}
	}
	if err := swap(d, s.binary(), filepath.Join(s.dir, "download"), s.record()); err != nil {
		t.Fatal(err)
	}
	return s
}

// build writes a file that stands for a build: the guard reads builds and runs none.
func (s *scene) build(name, version string) Build {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte("the build "+version), 0o755); err != nil {
		s.t.Fatal(err)
	}
	sum, err := digestOf(path)
	if err != nil {
		s.t.Fatal(err)
	}
	return Build{Version: version, SHA256: sum}
}

func (s *scene) binary() string { return filepath.Join(s.dir, "nodehitch-agent") }

func (s *scene) record() Record {
	s.t.Helper()
	at, err := now()
	if err != nil {
		s.t.Fatal(err)
	}
	r := Record{From: s.from, To: s.to, ProbationSeconds: 300}
	r.begin(at, r.probation())
	return r
}

func (s *scene) guard() Guard {
	return Guard{
		State: s.state, Self: Previous(s.binary()), Log: slog.New(slog.NewTextHandler(&s.log, nil)),
		Answers: func(ctx context.Context) bool { s.bounded(ctx); s.asked++; return s.answers },
		Later: func(ctx context.Context, after time.Duration) error {
			s.bounded(ctx)
			s.later = append(s.later, after)
			return nil
		},
	}
}

// bounded fails the test if what the guard waits for could keep the agent from starting.
func (s *scene) bounded(ctx context.Context) {
	if _, ends := ctx.Deadline(); !ends && s.t != nil {
		s.t.Error("the guard may wait for ever")
	}
}

// starts is one start of the unit; the previous build runs if there is one.
func (s *scene) starts() {
	s.t.Helper()
	if _, err := os.Stat(Previous(s.binary())); err != nil {
		return
	}
	if err := s.guard().Check(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) load() Record {
	s.t.Helper()
	r, err := load(s.state)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// change alters the record.
func (s *scene) change(f func(*Record)) {
	s.t.Helper()
	r := s.load()
	f(&r)
	if err := save(s.state, r); err != nil {
		s.t.Fatal(err)
	}
}

// expired is a record whose time is over.
func expired(r *Record) { r.Until.At = 0 }

// runs is which build the binary is.
func (s *scene) runs() string {
	s.t.Helper()
	switch sum, err := digestOf(s.binary()); {
	case err != nil:
		s.t.Fatal(err)
	case sum == s.from.SHA256:
		return "old"
	case sum == s.to.SHA256:
		return "new"
	}
	return "neither"
}

func (s *scene) want(runs, outcome string, refused bool) {
	s.t.Helper()
	r := s.load()
	if got := s.runs(); got != runs || r.Outcome != outcome || (r.refused(s.to.SHA256) != nil) != refused {
		s.t.Errorf("the %s build is there, outcome %q, refused %v; want %s, %q, %v", got, r.Outcome, r.refused(s.to.SHA256) != nil, runs, outcome, refused)
	}
}

func TestTheThirdStartTakesTheBuildBack(t *testing.T) {
	s := switched(t)
	for range 2 {
		s.starts()
		s.want("new", "", false)
	}
	s.starts()
	s.want("old", api.UpgradeRolledBack, true)
	s.starts()
	s.want("old", api.UpgradeRolledBack, true)
	if len(s.later) != 2 || s.later[0] > 5*time.Minute || s.later[0] < 4*time.Minute {
		t.Errorf("it is looked after later %v; want twice, within its time", s.later)
	}
}

// A build that was not healthy in its time may have missed a controller that was away until
// now, once.
func TestABuildThatIsLateGetsALittleMore(t *testing.T) {
	s := switched(t)
	s.starts()
	s.change(expired)
	s.starts()
	s.want("new", "", false)
	if r := s.load(); !r.Extended || r.Starts != 1 {
		t.Errorf("the record is %+v", r)
	}
	if last := s.later[len(s.later)-1]; last < time.Minute || last > 2*time.Minute {
		t.Errorf("it has %v more", last)
	}
	s.change(expired)
	s.starts()
	s.want("old", api.UpgradeRolledBack, true)
}

func TestNobodyIsJudgedWithoutAController(t *testing.T) {
	for name, late := range map[string]bool{"late": true, "ends at its start": false} {
		t.Run(name, func(t *testing.T) {
			s := switched(t)
			s.answers = false
			for range 3 {
				if late {
					s.change(expired)
				}
				s.starts()
			}
			s.want("old", api.UpgradeRolledBackUnjudged, false)
			if r := s.load(); r.Unjudged != 1 || time.Until(r.RetryAt) < 4*time.Minute || time.Until(r.RetryAt) > 5*time.Minute {
				t.Errorf("tried again at %v after %d", r.RetryAt, r.Unjudged)
			}
		})
	}
}

// A power cut or a reboot says nothing about the build, however often it comes.
func TestABootIsNoFailedStart(t *testing.T) {
	s := switched(t)
	for range maxBoots {
		s.change(func(r *Record) { r.Until = moment{Boot: "another", At: 0} })
		s.starts()
		s.want("new", "", false)
	}
	s.change(func(r *Record) { r.Until.Boot = "another" })
	s.starts()
	s.want("old", api.UpgradeRolledBackUnjudged, false)
}

func TestTheIdentityComesBack(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"other content": func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
		"gone":          os.Remove,
		"a link":        func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/nonexistent", path)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := switched(t)
			for _, name := range identityFiles {
				if err := damage(s.state.Path(name)); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 {
				s.starts()
			}
			s.want("old", api.UpgradeRolledBack, true)
			for _, name := range identityFiles {
				if got, err := s.state.Read(name); err != nil || string(got) != identity {
					t.Errorf("%s: %q, %v", name, got, err)
				}
			}
			if strings.Contains(s.log.String(), identity) {
				t.Error("the log has the identity")
			}
		})
	}
}

// What is not the new build of the record is not the guard's to replace, and an upgrade that
// is over neither.
func TestTheGuardLeavesOtherBuilds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*scene)
		runs   string
		fails  bool
	}{
		"no record":            {func(s *scene) { must(s.t, s.state.Remove(recordFile)) }, "new", false},
		"a healthy build":      {func(s *scene) { must(s.t, forget(s.state, s.load())) }, "new", false},
		"a third build":        {func(s *scene) { s.build("nodehitch-agent", "v3") }, "neither", false},
		"the switch not done":  {func(s *scene) { must(s.t, replace(Previous(s.binary()), s.binary())); s.keep() }, "old", false},
		"another previous one": {func(s *scene) { s.build(filepath.Base(Previous(s.binary())), "v0") }, "new", true},
		"a record of nulls":    {func(s *scene) { must(s.t, s.state.Write(recordFile, make([]byte, 100))) }, "new", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := switched(t)
			s.starts()
			s.starts()
			c.change(s)
			err := s.guard().Check(t.Context())
			if (err != nil) != c.fails || s.runs() != c.runs {
				t.Errorf("%v, and the %s build is there; want the %s one", err, s.runs(), c.runs)
			}
			if overdue, _ := s.guard().Overdue(); overdue {
				t.Error("it is overdue")
			}
		})
	}
}

func (s *scene) keep() { must(s.t, keepPrevious(s.binary())) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestABuildThatHangsIsOverdue(t *testing.T) {
	s := switched(t)
	s.starts()
	if overdue, err := s.guard().Overdue(); overdue || err != nil {
		t.Errorf("at once: %v, %v", overdue, err)
	}
	s.change(expired)
	if overdue, err := s.guard().Overdue(); !overdue || err != nil {
		t.Errorf("after its time: %v, %v", overdue, err)
	}
	if s.runs() != "new" {
		t.Error("a look changes nothing")
	}
}

// The guard may be killed after it has decided and before it has renamed.
func TestADecisionStands(t *testing.T) {
	s := switched(t)
	s.starts()
	s.starts()
	s.change(func(r *Record) {
		r.Outcome = api.UpgradeRolledBack
		r.refuse(r.To, "it ended at its start", time.Now())
	})
	s.answers = false
	s.starts()
	s.want("old", api.UpgradeRolledBack, true)
	if s.asked != 0 {
		t.Error("what was decided is decided again")
	}
}

func TestTheLatestRefusedBuildsAreRemembered(t *testing.T) {
	var r Record
	for i := range 3 * maxRefused {
		r.refuse(Build{SHA256: string(rune('a' + i))}, "", time.Now())
	}
	if len(r.Refused) != maxRefused || r.refused(string(rune('a'+3*maxRefused-1))) == nil || r.refused("a") != nil {
		t.Errorf("%d are remembered", len(r.Refused))
	}
}
