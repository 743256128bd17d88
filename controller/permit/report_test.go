package permit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestTheExchangeOfAVolume(t *testing.T) {
	w := newWorld(t)
	permit := w.acknowledged(alpha, wanted())
	if permit.Overwrite {
		t.Error("a first permit lets the agent overwrite data")
	}
	w.wantState(api.PermitGranted)
	w.acknowledged(alpha, started(permit.Permit))
	w.wantState(api.PermitStarted)
	w.acknowledged(alpha, formatted(permit.Permit))
	w.wantState(api.PermitFormatted)
	_, err := w.report(alpha, wanted())
	wantProblem(t, err, api.ProblemNoPermit, "formatted by the server "+alpha, "hitchctl volume reformat "+volume)
}

// Each answer may be lost, and the controller restarted: the message comes again.
func TestEveryMessageMayComeAgain(t *testing.T) {
	w := newWorld(t)
	again := func(r api.FormatReport) string {
		first := w.acknowledged(alpha, r)
		w.restart()
		if second := w.acknowledged(alpha, r); second != first {
			t.Errorf("%s is answered %+v, then %+v", r.Phase, first, second)
		}
		return first.Permit
	}
	id := again(wanted())
	again(started(id))
	again(wanted()) // killed before its journal: the same machine, the same permit
	w.wantState(api.PermitStarted)
	again(notBlank()) // mkfs was killed half-way
	again(formatted(id))
	_, err := w.report(alpha, started(id))
	wantProblem(t, err, api.ProblemNoPermit, "formatted once")
}

// A permit is used only after Started is acknowledged, so that must be on disk.
func TestStartedIsOnDiskBeforeItIsAcknowledged(t *testing.T) {
	w := newWorld(t)
	w.until(api.FormatStarted)
	w.restart()
	w.wantState(api.PermitStarted)
}

func TestMessagesThatAreRefused(t *testing.T) {
	change := func(r api.FormatReport, fn func(*api.FormatReport)) api.FormatReport { fn(&r); return r }
	otherSize := func(r *api.FormatReport) { r.SizeBytes++ }
	otherUUID := func(r *api.FormatReport) { r.FilesystemUUID = api.FilesystemUUID(second) }
	twoServers := func(w *world) {
		w.volume(volume, func(v *store.Volume) { v.AttachedTo = []string{alpha, beta} })
	}
	for name, c := range map[string]struct {
		before  func(w *world) (permit string)
		node    string
		report  func(permit string) api.FormatReport
		problem string
		says    string
	}{
		"wanted by a server that the volume is not attached to": {
			node: beta, report: func(string) api.FormatReport { return wanted() }, problem: api.ProblemNoPermit, says: "names no volume"},
		"wanted, not blank": {
			node: alpha, report: func(string) api.FormatReport { return notBlank() }, problem: api.ProblemNoPermit, says: "hitchctl volume adopt"},
		"wanted for another filesystem": {
			node: alpha, report: func(string) api.FormatReport { return change(wanted(), otherUUID) }, problem: api.ProblemNoPermit, says: "read the configuration again"},
		"wanted for a disk of another size": {
			node: alpha, report: func(string) api.FormatReport { return change(wanted(), otherSize) }, problem: api.ProblemNoPermit, says: "another disk"},
		"wanted while two servers have the volume": {
			before: func(w *world) string { twoServers(w); return "" },
			node:   alpha, report: func(string) api.FormatReport { return wanted() }, problem: api.ProblemMultiAttached, says: beta},
		"wanted again when the disk is no longer blank and nothing was started": {
			before: func(w *world) string { return w.until(api.FormatWanted) },
			node:   alpha, report: func(string) api.FormatReport { return notBlank() }, problem: api.ProblemNoPermit, says: "find out what wrote to it"},
		"started without a permit": {
			node: alpha, report: func(string) api.FormatReport { return started("") }, problem: api.ProblemNoPermit},
		"started with a permit that was never given": {
			before: func(w *world) string { return w.until(api.FormatWanted) },
			node:   alpha, report: func(string) api.FormatReport { return started("00") }, problem: api.ProblemNoPermit},
		"started by a server with the permit of another": {
			before: func(w *world) string { id := w.until(api.FormatWanted); w.attach(beta); return id },
			node:   beta, report: started, problem: api.ProblemNoPermit},
		"started after the volume moved": {
			before: func(w *world) string { id := w.until(api.FormatWanted); w.attach(beta); return id },
			node:   alpha, report: started, problem: api.ProblemNoPermit},
		"started after a second server got the volume": {
			before: func(w *world) string { id := w.until(api.FormatWanted); twoServers(w); return id },
			node:   alpha, report: started, problem: api.ProblemMultiAttached},
		"started on a disk of another size, the volume's own being unknown": {
			before: func(w *world) string {
				w.volume(volume, func(v *store.Volume) { v.SizeBytes = 0 })
				return w.until(api.FormatWanted)
			},
			node: alpha, report: func(id string) api.FormatReport { return change(started(id), otherSize) }, problem: api.ProblemNoPermit, says: "another disk"},
		"formatted before started": {
			before: func(w *world) string { return w.until(api.FormatWanted) },
			node:   alpha, report: formatted, problem: api.ProblemNoPermit, says: "before its start"},
		"wanted by the next server while the last one is formatting": {
			before: func(w *world) string { id := w.until(api.FormatStarted); w.attach(beta); return id },
			node:   beta, report: func(string) api.FormatReport { return wanted() }, problem: api.ProblemFormatInterrupted, says: alpha},
		"an unknown phase": {
			node:   alpha,
			report: func(string) api.FormatReport { return api.FormatReport{Phase: "erased"} }, problem: api.ProblemInvalid, says: "/phase"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var id string
			if c.before != nil {
				id = c.before(w)
			}
			before := w.get()
			w.now = w.now.Add(time.Minute)
			_, err := w.report(c.node, c.report(id))
			wantProblem(t, err, c.problem, c.says)
			if diff := cmp.Diff(before, w.get()); diff != "" {
				t.Errorf("the refused message changed the record:\n%s", diff)
			}
		})
	}
	_, err := newWorld(t).Report(background, alpha, second, wanted())
	wantProblem(t, err, api.ProblemNoPermit, "names no volume")
}

func TestWhatEndsWithItsNode(t *testing.T) {
	w := newWorld(t)
	unused := w.until(api.FormatWanted)
	w.gone(alpha)
	w.wantState(api.PermitNone)
	_, err := w.report(alpha, started(unused)) // in flight while alpha was revoked
	wantProblem(t, err, api.ProblemNoPermit)
	w.attach(beta)
	permit := w.acknowledged(beta, wanted())
	if permit.Permit == unused {
		t.Error("the next server got the permit of the last one")
	}
	w.acknowledged(beta, started(permit.Permit))
	w.gone(beta)
	w.wantState(api.PermitInterrupted)

	w.enroll(alpha)
	w.attach(alpha)
	for _, r := range []api.FormatReport{wanted(), notBlank(), started(permit.Permit), started(unused), formatted(unused)} {
		_, err := w.report(alpha, r)
		wantProblem(t, err, api.ProblemFormatInterrupted, beta, "hitchctl volume reformat "+volume)
	}
	w.gone(alpha) // again, and of a node without a permit
	w.gone(beta)
	w.wantState(api.PermitInterrupted)
}

func TestWhatIsDoneStaysDoneWhenTheNodeGoes(t *testing.T) {
	w := newWorld(t)
	w.until(api.FormatFormatted)
	w.gone(alpha)
	w.wantState(api.PermitFormatted)
}

// Revoked by mistake in the middle of mkfs, enrolled again, and it had gone well.
func TestANodeThatComesBackWithTheWorkDone(t *testing.T) {
	w := newWorld(t)
	id := w.until(api.FormatStarted)
	w.gone(alpha)
	w.enroll(alpha)
	_, err := w.report(alpha, started(id))
	wantProblem(t, err, api.ProblemFormatInterrupted)
	w.acknowledged(alpha, formatted(id))
	w.wantState(api.PermitFormatted)
}

func TestPermitsOfBeforeARestore(t *testing.T) {
	for _, phase := range []api.FormatPhase{api.FormatWanted, api.FormatStarted} {
		t.Run(string(phase), func(t *testing.T) {
			w := newWorld(t)
			id := w.until(phase)
			if _, err := w.Store.BeginEpoch(store.NewEpoch{}); err != nil {
				t.Fatal(err)
			}
			for _, r := range []api.FormatReport{wanted(), notBlank(), started(id)} {
				_, err := w.report(alpha, r)
				wantProblem(t, err, api.ProblemNoPermit, "restored from a backup", "hitchctl volume reformat")
			}
			_, err := w.Reformat(background, volume, volume)
			wantOK(t, err)
			again := w.acknowledged(alpha, notBlank())
			if again.Permit == id || !again.Overwrite {
				t.Errorf("after the operator's word: %+v", again)
			}
		})
	}
	t.Run("none, as far as the backup knows", func(t *testing.T) {
		w := newWorld(t)
		if _, err := w.Store.BeginEpoch(store.NewEpoch{}); err != nil {
			t.Fatal(err)
		}
		_, err := w.report(alpha, wanted())
		wantProblem(t, err, api.ProblemNoPermit, "restored from a backup", "hitchctl volume adopt")
		w.wantState(api.PermitNone)
	})
	t.Run("granted, and its node is gone", func(t *testing.T) {
		w := newWorld(t)
		w.until(api.FormatWanted) // the backup; after it the permit may have been used
		if _, err := w.Store.BeginEpoch(store.NewEpoch{}); err != nil {
			t.Fatal(err)
		}
		w.gone(alpha)
		w.wantState(api.PermitInterrupted)
	})
	t.Run("granted, and the volume moved", func(t *testing.T) {
		w := newWorld(t)
		w.until(api.FormatWanted)
		if _, err := w.Store.BeginEpoch(store.NewEpoch{}); err != nil {
			t.Fatal(err)
		}
		w.attach(beta)
		_, err := w.report(beta, wanted())
		wantProblem(t, err, api.ProblemNoPermit, "restored from a backup")
	})
	t.Run("formatted meanwhile", func(t *testing.T) {
		w := newWorld(t)
		id := w.until(api.FormatStarted)
		if _, err := w.Store.BeginEpoch(store.NewEpoch{}); err != nil {
			t.Fatal(err)
		}
		w.acknowledged(alpha, formatted(id))
		w.wantState(api.PermitFormatted)
	})
}

// Other servers do not learn whether a volume exists and which server has it.
func TestOtherServersLearnNothingOfAVolume(t *testing.T) {
	for name, before := range map[string]func(*world){
		"new":         func(*world) {},
		"started":     func(w *world) { w.until(api.FormatStarted) },
		"interrupted": func(w *world) { w.until(api.FormatStarted); w.gone(alpha) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before(w)
			w.enroll(beta)
			for _, r := range []api.FormatReport{wanted(), started("guess"), formatted("guess"), formatted("")} {
				_, none := w.Report(background, beta, second, r)
				_, others := w.report(beta, r)
				if got, want := strings.ReplaceAll(fmt.Sprint(others), volume, second), fmt.Sprint(none); got != want {
					t.Errorf("%s of another server's volume is answered %q, of none %q", r.Phase, got, want)
				}
			}
		})
	}
}
