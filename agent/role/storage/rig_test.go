package storage_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/agent/role/storage"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	volume  = "4a0d9f3e-1b2c-4d5e-8f60-718293a4b5c6"
	volume2 = "9b1e0c7d-2a3b-4c5d-9e6f-8091a2b3c4d5"
	node    = "0f1e2d3c-4b5a-4968-8776-655443322110"
	gib     = 1 << 30
)

var assigned, assigned2 = api.FilesystemUUID(volume), api.FilesystemUUID(volume2)

// desk permits formats, like the controller: one permit for each volume.
type desk struct {
	// refuse is the answer to everything, if it is set; away means no answer.
	refuse error
	// overwrite permits to overwrite.
	overwrite bool
	state     map[string]api.FormatPhase
	log       []string
	crash     func(string)
}

var errAway = errors.New("connection refused")

func (d *desk) answer(phase api.FormatPhase, f storage.Format) error {
	if d.crash != nil {
		d.crash("ask: " + string(phase))
	}
	line := string(phase)
	if f.BlankCheck != nil {
		line += " with blank check"
	}
	if d.refuse != nil {
		d.log = append(d.log, line+": refused")
		return d.refuse
	}
	d.log = append(d.log, line)
	return nil
}

func (d *desk) Wanted(_ context.Context, f storage.Format) (storage.Permit, error) {
	if err := d.answer(api.FormatWanted, f); err != nil {
		return storage.Permit{}, err
	}
	switch state := d.state[f.VolumeID]; {
	case state == api.FormatFormatted && !d.overwrite:
		return storage.Permit{}, converge.Wait(api.ReasonNoPermit, "a volume is formatted once")
	case state == "" && f.BlankCheck == nil && !d.overwrite:
		return storage.Permit{}, converge.Wait(api.ReasonNoPermit, "there is no blank check")
	case state == "" || d.overwrite:
		d.state[f.VolumeID] = api.FormatWanted
	}
	return storage.Permit{ID: "permit-" + f.VolumeID, Overwrite: d.overwrite}, nil
}

func (d *desk) Started(_ context.Context, f storage.Format) error {
	if err := d.answer(api.FormatStarted, f); err != nil {
		return err
	}
	if state := d.state[f.VolumeID]; f.Permit != "permit-"+f.VolumeID || state != api.FormatWanted && state != api.FormatStarted {
		return converge.Wait(api.ReasonNoPermit, "this permit is spent")
	}
	d.state[f.VolumeID] = api.FormatStarted
	return nil
}

func (d *desk) Formatted(_ context.Context, f storage.Format) error {
	if err := d.answer(api.FormatFormatted, f); err != nil {
		return err
	}
	d.state[f.VolumeID] = api.FormatFormatted
	return nil
}

// rig is a machine, a desk, and the real engine over the real steps.
type rig struct {
	t       *testing.T
	m       *hosttest.Machine
	permits *desk
	doc     *api.NodeConfig
	engine  *converge.Engine
}

func machine(t *testing.T, parts ...hosttest.Part) *rig {
	r := &rig{t: t, m: hosttest.New(parts...), permits: &desk{state: map[string]api.FormatPhase{}}, doc: document()}
	r.restart()
	return r
}

// restart is a new process of the agent on the same machine.
func (r *rig) restart() { r.engine = converge.New(r.steps()...) }

func (r *rig) steps() []converge.Step {
	return storage.NewSteps(storage.Options{
		Host: r.m.Host(), Permits: r.permits, NodeID: node, StateDirectory: "/var/lib/nodehitch/agent",
	})
}

func document() *api.NodeConfig {
	return &api.NodeConfig{
		APIVersion: api.NodeConfigV1, Generation: 1, Role: api.RoleStorage,
		Storage: &api.StorageSection{
			Volumes: []api.StorageVolume{{VolumeID: volume, SizeBytes: gib, MountPath: "/volume", Filesystem: api.Ext4, FilesystemUUID: assigned}},
			Exports: []api.StorageExport{{Directory: "/volume/nfs/pv1", Client: "10.10.0.0/24", Options: []string{"rw", "sync", "no_subtree_check", "insecure", "all_squash"}}},
		},
	}
}

func (r *rig) converge() converge.Report {
	return r.engine.Converge(r.t.Context(), r.doc, converge.Options{})
}

// reformat is an operator's permission: the document has it, and so has the desk.
func (r *rig) reformat() {
	r.permits.overwrite, r.doc.Storage.Volumes[0].ReformatRequested = true, true
}

// condition is one condition of a report as "status reason".
func condition(report converge.Report, name string) string {
	c := report.Condition(name)
	if c == nil {
		return "not reported"
	}
	return string(c.Status) + " " + c.Reason
}

// expect converges and compares both conditions.
func (r *rig) expect(volumes, exports string) converge.Report {
	r.t.Helper()
	report := r.converge()
	got := []string{condition(report, api.ConditionVolumesMounted), condition(report, api.ConditionExportsServed)}
	if diff := cmp.Diff([]string{volumes, exports}, got); diff != "" {
		r.t.Errorf("conditions (want, got): %s\nconditions: %+v\ntrace: %s", diff, report.Conditions, strings.Join(r.m.Trace, "\n       "))
	}
	return report
}

// idle converges once more and wants nothing to be done.
func (r *rig) idle() {
	r.t.Helper()
	before := r.m.Changes()
	report := r.converge()
	if since := r.m.Changes().Since(before); report.Changed || !since.None() {
		r.t.Errorf("a converged machine was changed: %s\n%+v", since, report.Results)
	}
}

func (r *rig) says(report converge.Report, name string, words ...string) {
	r.t.Helper()
	c := report.Condition(name)
	for _, word := range words {
		if c == nil || !strings.Contains(c.Message, word) {
			r.t.Errorf("the message of %s does not have %q: %+v", name, word, c)
		}
	}
}

// did reports whether the trace has a line that begins so.
func (r *rig) did(prefix string) bool {
	for _, line := range r.m.Trace {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

func (r *rig) untouched() {
	r.t.Helper()
	if r.did("mkfs") || r.did("wipefs") {
		r.t.Errorf("the disk was written to: %s", strings.Join(r.m.Trace, "; "))
	}
}

func (r *rig) file(path string) string { return r.m.Files[path].Content }

func journalOf(id string) string {
	return fmt.Sprintf("/var/lib/nodehitch/agent/journal/%s.json", id)
}

// useNoID lets the steps get permits without an id.
func (r *rig) useNoID() {
	r.engine = converge.New(storage.NewSteps(storage.Options{
		Host: r.m.Host(), Permits: noID{r.permits}, NodeID: node, StateDirectory: "/var/lib/nodehitch/agent",
	})...)
}

type noID struct{ *desk }

func (n noID) Wanted(context.Context, storage.Format) (storage.Permit, error) {
	return storage.Permit{}, nil
}
