package permit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

const existing = "0b5e4c39-9a3d-4d43-9d3b-6f3f0a1f7a11"

func TestAnAdoptedVolumeIsNeverFormatted(t *testing.T) {
	w := newWorld(t)
	unused := w.until(api.FormatWanted)
	v, err := w.Adopt(background, volume, strings.ToUpper(existing))
	wantOK(t, err)
	if v.FilesystemUUID != existing || v.PermitState != api.PermitAdopted || v.ChangedAt == nil {
		t.Errorf("adopted as %+v", v)
	}
	if diff := cmp.Diff([]string{"i1"}, w.changed); diff != "" {
		t.Errorf("told of the instances: %s", diff)
	}
	r := wanted()
	r.FilesystemUUID = existing
	_, err = w.report(alpha, r)
	wantProblem(t, err, api.ProblemNoPermit, "adopted", existing)
	r = started(unused)
	r.FilesystemUUID = existing
	_, err = w.report(alpha, r)
	wantProblem(t, err, api.ProblemNoPermit)
}

// The format was done and its report lost with the node: what is there is ours.
func TestAdoptionOfOurOwnFilesystem(t *testing.T) {
	w := newWorld(t)
	w.until(api.FormatStarted)
	w.gone(alpha)
	_, err := w.Reformat(background, volume, volume) // a hasty word, taken back
	wantOK(t, err)
	v, err := w.Adopt(background, volume, api.FilesystemUUID(volume))
	wantOK(t, err)
	if v.PermitState != api.PermitAdopted || v.ReformatRequested {
		t.Errorf("adopted as %+v", v)
	}
	w.enroll(alpha)
	_, err = w.report(alpha, notBlank())
	wantProblem(t, err, api.ProblemNoPermit, "adopted")
}

func TestAdoptionsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		before       func(w *world)
		volume, uuid string
		problem      string
		says         string
	}{
		"of an unknown volume":  {volume: second, uuid: existing, problem: api.ProblemNotFound, says: second},
		"of no UUID":            {volume: volume, uuid: "", problem: api.ProblemInvalid, says: "/filesystemUuid"},
		"of the nil UUID":       {volume: volume, uuid: "00000000-0000-0000-0000-000000000000", problem: api.ProblemInvalid, says: "/filesystemUuid"},
		"of a label":            {volume: volume, uuid: "data", problem: api.ProblemInvalid, says: "blkid"},
		"of a UUID in braces":   {volume: volume, uuid: "{" + existing + "}", problem: api.ProblemInvalid, says: "blkid"},
		"while it is formatted": {before: func(w *world) { w.until(api.FormatStarted) }, volume: volume, uuid: existing, problem: api.ProblemConflict, says: "hitchctl node revoke " + alpha},
		"of what a reformat would give another": {
			before: func(w *world) { w.volume(second, func(v *store.Volume) { v.FilesystemUUID = existing }) },
			volume: volume, uuid: api.FilesystemUUID(second), problem: api.ProblemConflict, says: second},
		"of another's filesystem": {
			before: func(w *world) { w.volume(second, func(v *store.Volume) { v.FilesystemUUID = existing }) },
			volume: volume, uuid: strings.ToUpper(existing), problem: api.ProblemConflict, says: second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if c.before != nil {
				c.before(w)
			}
			_, err := w.Adopt(background, c.volume, c.uuid)
			wantProblem(t, err, c.problem, c.says)
			if len(w.changed) != 0 {
				t.Error("a refusal is told as a change")
			}
		})
	}
}

func TestReformatPermitsOneOverwrite(t *testing.T) {
	for name, before := range map[string]func(w *world){
		"of foreign data":              func(*world) {},
		"of a permit that is not used": func(w *world) { w.until(api.FormatWanted) },
		"of a formatted volume":        func(w *world) { w.until(api.FormatFormatted) },
		"of an adopted volume": func(w *world) {
			_, err := w.Adopt(background, volume, existing)
			wantOK(w.t, err)
		},
		"of an interrupted format": func(w *world) { w.until(api.FormatStarted); w.gone(alpha); w.enroll(alpha) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before(w)
			w.changed = nil
			v, err := w.Reformat(background, volume, volume)
			wantOK(t, err)
			if !v.ReformatRequested || v.PermitState != api.PermitNone || v.FilesystemUUID != api.FilesystemUUID(volume) {
				t.Errorf("after the operator's word: %+v", v)
			}
			if diff := cmp.Diff([]string{"i1"}, w.changed); diff != "" {
				t.Errorf("told of the instances: %s", diff)
			}
			permit := w.acknowledged(alpha, notBlank())
			if again := w.acknowledged(alpha, notBlank()); !permit.Overwrite || again != permit {
				t.Errorf("permits %+v, then %+v", permit, again)
			}
			if p := w.acknowledged(alpha, started(permit.Permit)); !p.Overwrite {
				t.Error("started is acknowledged without the overwrite")
			}
			w.acknowledged(alpha, formatted(permit.Permit))
			if v := w.get(); v.ReformatRequested || v.PermitState != api.PermitFormatted {
				t.Errorf("it is not spent: %+v", v)
			}
			_, err = w.report(alpha, notBlank())
			wantProblem(t, err, api.ProblemNoPermit)
		})
	}
}

// The operator saw one situation; in another the confirmation is not valid.
func TestAReformatThatNoLongerHolds(t *testing.T) {
	granted := func(w *world) { w.acknowledged(alpha, notBlank()) }
	for name, c := range map[string]struct {
		after func(w *world)
		asks  string
	}{
		"the volume moved":                 {func(w *world) { w.attach(beta) }, beta},
		"the server went":                  {func(w *world) { w.gone(alpha); w.attach(beta) }, beta},
		"the server was rebuilt":           {func(w *world) { w.gone(alpha); w.enroll(alpha) }, alpha},
		"it was granted, the server went":  {func(w *world) { granted(w); w.gone(alpha); w.attach(beta) }, beta},
		"it was granted, the volume moved": {func(w *world) { granted(w); w.attach(beta) }, beta},
		"the store was restored": {func(w *world) {
			_, err := w.Store.BeginEpoch(store.NewEpoch{})
			wantOK(w.t, err)
		}, alpha},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, err := w.Reformat(background, volume, volume)
			wantOK(t, err)
			c.after(w)
			for _, r := range []api.FormatReport{notBlank(), wanted()} {
				if p, err := w.report(c.asks, r); err == nil {
					t.Errorf("permitted %+v", p)
				}
			}
			_, err = w.Reformat(background, volume, volume)
			wantOK(t, err)
			if p := w.acknowledged(c.asks, notBlank()); !p.Overwrite {
				t.Error("confirmed again, and there is no overwrite")
			}
		})
	}
}

func TestReformatsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		before  func(w *world)
		confirm string
		problem string
		says    string
	}{
		"not confirmed":                {confirm: "", problem: api.ProblemInvalid, says: "/confirmVolumeId"},
		"confirmed for another volume": {confirm: second, problem: api.ProblemInvalid, says: "will be lost"},
		"while it is formatted": {before: func(w *world) { w.until(api.FormatStarted) },
			confirm: volume, problem: api.ProblemConflict, says: "wait until it is done"},
		"without a server": {before: func(w *world) { w.attach("") }, confirm: volume, problem: api.ProblemConflict, says: "no server"},
		"with two servers": {before: func(w *world) {
			w.volume(volume, func(v *store.Volume) { v.AttachedTo = []string{alpha, beta} })
		}, confirm: volume, problem: api.ProblemMultiAttached, says: beta},
		"mounted with the assigned filesystem": {before: func(w *world) { w.mounts(alpha) },
			confirm: volume, problem: api.ProblemConflict, says: "mounted"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if c.before != nil {
				c.before(w)
			}
			_, err := w.Reformat(background, volume, c.confirm)
			wantProblem(t, err, c.problem, c.says)
			if w.get().ReformatRequested {
				t.Error("a refused reformat is recorded")
			}
		})
	}
	_, err := newWorld(t).Reformat(background, second, second)
	wantProblem(t, err, api.ProblemNotFound)
}

func TestListShowsEveryVolume(t *testing.T) {
	w := newWorld(t)
	w.volume(second, func(*store.Volume) {})
	all, err := w.List(background)
	wantOK(t, err)
	if len(all) != 2 || all[0].ID != volume || all[1].ID != second || all[1].PermitState != api.PermitNone || all[1].ChangedAt != nil {
		t.Errorf("volumes %+v", all)
	}
}
