package permit

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/storetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	volume = "4a0d6b1c-0000-4000-8000-000000000001"
	second = "4a0d6b1c-0000-4000-8000-000000000002"
	alpha  = "3f0c1d52-aaaa-4000-8000-000000000001"
	beta   = "3f0c1d52-bbbb-4000-8000-000000000002"
	size   = int64(2 << 30)
)

var background = context.Background()

// world is a store with one volume of 2 GiB, attached to the enrolled server alpha.
type world struct {
	*Service
	t       testing.TB
	dir     string
	now     time.Time
	changed []string
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, dir: t.TempDir(), now: time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)}
	w.Service = &Service{
		Now: func() time.Time { return w.now }, Log: slog.New(slog.DiscardHandler), Hub: new(notify.Hub),
		Changed: func(id string) { w.changed = append(w.changed, id) },
	}
	w.restart()
	t.Cleanup(func() { wantOK(t, w.Store.Close()) })
	for _, node := range []string{alpha, beta} {
		w.enroll(node)
	}
	w.volume(volume, func(v *store.Volume) {
		v.InstanceID, v.NodeID, v.SizeBytes, v.AttachedTo = "i1", alpha, size, []string{alpha}
	})
	return w
}

// restart opens the store of the same files anew.
func (w *world) restart() {
	w.t.Helper()
	if w.Store != nil {
		wantOK(w.t, w.Store.Close())
	}
	s, err := storetest.Open(w.t, store.Options{
		Path: filepath.Join(w.dir, "state.db"),
		Key:  store.KeySource{File: filepath.Join(w.dir, "key"), Create: true},
		Now:  func() time.Time { return w.now },
	})
	wantOK(w.t, err)
	w.Store = s
}

func (w *world) enroll(node string) {
	w.t.Helper()
	wantOK(w.t, w.Store.Update(func(tx *store.Tx) error {
		return tx.Nodes().Put(node, store.Node{ID: node, Identity: &store.Identity{}})
	}))
}

// mounts is what the node reports once it has the volume mounted.
func (w *world) mounts(node string) {
	w.t.Helper()
	wantOK(w.t, w.Store.Update(func(tx *store.Tx) error {
		status := &api.NodeStatus{AppliedDigest: "d", Conditions: []api.Condition{
			{Type: api.ConditionVolumesMounted, Status: api.ConditionTrue, Reason: api.ReasonMounted},
		}}
		return tx.Nodes().Put(node, store.Node{ID: node, Identity: &store.Identity{}, Digest: "d", Status: status})
	}))
}

// gone is what enrollment does when an identity ends.
func (w *world) gone(node string) {
	w.t.Helper()
	wantOK(w.t, w.Store.Update(func(tx *store.Tx) error {
		ended := store.Node{ID: node, Identity: &store.Identity{RevokedAt: &w.now}}
		return errors.Join(tx.Nodes().Put(node, ended), w.NodeGone(tx, node))
	}))
}

// volume changes a record as the life cycle does, the permit aside.
func (w *world) volume(id string, change func(*store.Volume)) {
	w.t.Helper()
	wantOK(w.t, w.Store.Update(func(tx *store.Tx) error {
		v, found, err := tx.Volumes().Get(id)
		if !found {
			v = store.Volume{ID: id, FilesystemUUID: api.FilesystemUUID(id), Epoch: w.Store.Epoch()}
		}
		change(&v)
		return errors.Join(err, tx.Volumes().Put(id, v))
	}))
}

func (w *world) attach(node string) {
	w.volume(volume, func(v *store.Volume) { v.NodeID, v.AttachedTo = node, []string{node} })
}

func (w *world) get() api.Volume {
	w.t.Helper()
	v, err := w.Get(background, volume)
	wantOK(w.t, err)
	return v
}

func (w *world) wantState(want api.PermitState) {
	w.t.Helper()
	if got := w.get().PermitState; got != want {
		w.t.Errorf("the permit is %s, want %s", got, want)
	}
}

// wanted is the first message about a disk that is proven blank.
func wanted() api.FormatReport {
	return api.FormatReport{
		Phase: api.FormatWanted, SizeBytes: size, FilesystemUUID: api.FilesystemUUID(volume),
		BlankCheck: &api.BlankCheck{BytesRead: 1 << 20, Samples: 64},
	}
}

// notBlank is the first message about a disk that contains something.
func notBlank() api.FormatReport {
	r := wanted()
	r.BlankCheck = nil
	return r
}

func started(permit string) api.FormatReport {
	return api.FormatReport{Phase: api.FormatStarted, Permit: permit, SizeBytes: size, FilesystemUUID: api.FilesystemUUID(volume)}
}

func formatted(permit string) api.FormatReport {
	r := started(permit)
	r.Phase = api.FormatFormatted
	return r
}

func (w *world) report(node string, r api.FormatReport) (api.FormatPermit, error) {
	return w.Report(background, node, volume, r)
}

// acknowledged is a report that has to succeed; it returns the permit's id.
func (w *world) acknowledged(node string, r api.FormatReport) api.FormatPermit {
	w.t.Helper()
	p, err := w.report(node, r)
	wantOK(w.t, err)
	if p.Phase != r.Phase || p.Permit == "" {
		w.t.Errorf("answer %+v to %s", p, r.Phase)
	}
	return p
}

// until brings the exchange of alpha as far as the phase and returns the permit.
func (w *world) until(phase api.FormatPhase) string {
	w.t.Helper()
	id := w.acknowledged(alpha, wanted()).Permit
	if phase != api.FormatWanted {
		w.acknowledged(alpha, started(id))
	}
	if phase == api.FormatFormatted {
		w.acknowledged(alpha, formatted(id))
	}
	return id
}

func wantOK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantProblem(t testing.TB, err error, problemType string, parts ...string) {
	t.Helper()
	var problem *api.Problem
	if !errors.As(err, &problem) || problem.Type != problemType {
		t.Fatalf("error %v, want the problem %s", err, problemType)
	}
	said := err.Error() + " " + problem.Commands()
	for _, part := range parts {
		if !strings.Contains(said, part) {
			t.Errorf("problem %q does not say %q", said, part)
		}
	}
	if strings.Contains(err.Error(), "hitchctl") {
		t.Errorf("problem %q is not in the words of the API", err)
	}
}
