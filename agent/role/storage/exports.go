package storage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/software"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

// exports is the step that owns ExportsServed.
type exports struct{ *steps }

func (s *exports) Condition() string { return api.ConditionExportsServed }

func (s *exports) Plan(ctx context.Context, desired *api.NodeConfig) (converge.Plan, error) {
	if desired.Storage == nil {
		return converge.Plan{HandsOff: true}, nil
	}
	entries, err := entriesOf(desired.Storage)
	if err != nil {
		return converge.Plan{}, converge.Fail(api.ReasonInvalidDocument, "%v", err)
	}
	if len(entries) == 0 {
		return s.planRemoval(ctx)
	}
	want, err := settingsOf(desired.Storage)
	if err != nil {
		return converge.Plan{}, converge.Fail(api.ReasonInvalidDocument, "%v", err)
	}
	p := &exportPlan{steps: s.steps, section: desired.Storage, settings: want}
	if err := p.plan(ctx, entries, software.ProxyOf(desired)); err != nil {
		p.problems = append(p.problems, err)
	}
	return converge.Plan{
		Actions: p.actions, Reason: api.ReasonServed,
		Message: fmt.Sprintf("%d exports served%s", len(entries), p.notes),
	}, errors.Join(p.problems...)
}

// exportGroup is the group of all actions except those for one directory.
const exportGroup = "exports"

// exportPlan plans what is exported.
type exportPlan struct {
	*steps
	section  *api.StorageSection
	settings settings
	actions  []converge.Action
	problems []error
	// notes are appended to the message.
	notes string
	// installing says that the package of the NFS server is not there yet; setUp that the server
	// gets its settings before it is started.
	installing, setUp bool
}

func (p *exportPlan) do(summary string, f func(context.Context) error) {
	p.actions = append(p.actions, converge.Action{Summary: summary, Group: exportGroup, Do: f})
}

// plan exports only directories on mounted volumes. If a volume disappears later, the
// mountpoint= of its entries protects it until the next plan.
func (p *exportPlan) plan(ctx context.Context, wanted []entry, proxy host.Proxy) error {
	installing, err := software.Install(ctx, p.Host, proxy, exportGroup, host.NFSServer)
	if err != nil {
		return err
	}
	p.installing = len(installing) > 0
	mounted := p.mounted()
	if err := p.settle(ctx, mounted); err != nil {
		return err
	}
	entries := slices.DeleteFunc(slices.Clone(wanted), func(e entry) bool {
		m, ok := mounted[e.mountPath]
		return !ok || !p.directory(e, m)
	})
	if err := p.file(entries); err != nil {
		return err
	}
	// Packages may start the server, so it has its settings and knows what to export before.
	p.actions = append(p.actions, installing...)
	// Starting the server does not change the table.
	changed := len(p.actions) > 0
	if err := p.server(ctx); err != nil {
		return err
	}
	if p.installing || p.setUp {
		p.reexport(exportGroup, entries)
		return nil
	}
	exported, err := p.Host.NFS.Exported(ctx)
	if err != nil {
		return err
	}
	unserved := slices.ContainsFunc(entries, func(e entry) bool { return !p.served(ctx, e, exported) })
	if changed || unserved || slices.ContainsFunc(exported, p.unwanted(ctx, entries)) {
		p.reexport(exportGroup+" table", entries)
	}
	return nil
}

// mounted returns the desired volumes that are mounted at their place, by mount path. A
// volume that is not, or that cannot be checked, is a problem.
func (p *exportPlan) mounted() map[string]host.Mount {
	found := map[string]host.Mount{}
	mounts, err := p.Host.Mounts.List()
	if err != nil {
		p.problems = append(p.problems, converge.Wait(api.ReasonNotMounted, "the mount table cannot be read: %v", err))
		return found
	}
	for i := range p.section.Volumes {
		v := &p.section.Volumes[i]
		if !p.exportedFrom(*v) && (i > 0 || p.settings.records == "") {
			continue
		}
		m := (&view{mounts: mounts}).at(v.MountPath)
		if why := p.notOurs(v, m); why != "" {
			p.problems = append(p.problems, converge.Wait(api.ReasonNotMounted,
				"volume %s: %s, so nothing on it is exported; see VolumesMounted", v.VolumeID, why))
			continue
		}
		found[v.MountPath] = *m
	}
	return found
}

// exportedFrom reports whether the document exports something on the volume.
func (p *exportPlan) exportedFrom(v api.StorageVolume) bool {
	return slices.ContainsFunc(p.section.Exports, func(e api.StorageExport) bool { return grammar.Under(e.Directory, v.MountPath) })
}

// Mounted returns the mount of a volume, for steps that store data on it. The error
// says why the volume is not mounted at its place. It only reads.
func Mounted(h *host.Host, v *api.StorageVolume) (host.Mount, error) {
	mounts, err := h.Mounts.List()
	if err != nil {
		return host.Mount{}, err
	}
	m := (&view{mounts: mounts}).at(v.MountPath)
	if why := (&steps{Options: Options{Host: h}}).notOurs(v, m); why != "" {
		return host.Mount{}, fmt.Errorf("volume %s: %s", v.VolumeID, why)
	}
	return *m, nil
}

// notOurs says why a mount is not the volume's, "" if it is.
func (p *steps) notOurs(v *api.StorageVolume, m *host.Mount) string {
	if m == nil {
		return "nothing is mounted at " + v.MountPath
	}
	disk, err := p.diskOf(m)
	switch {
	case err != nil:
		return "the disk at " + v.MountPath + " cannot be inspected: " + err.Error()
	case disk == nil && m.FSType == "ext4":
		return "the disk that is mounted at " + v.MountPath + " is gone"
	case disk == nil || m.FSType != "ext4" || m.Root != "/":
		return "something else is mounted at " + v.MountPath
	}
	if err := p.confirm(v, *disk); err != nil {
		return err.Error()
	}
	return ""
}

// directory plans the exported directory, and reports whether it may be exported. If all
// clients write as one account, that account owns it, so group and others need no write
// access. Else its owner and mode are the clients' to change, so one that exists stays as it is.
func (p *exportPlan) directory(e entry, m host.Mount) bool {
	rel, err := filepath.Rel(e.mountPath, e.directory)
	if err != nil {
		p.problems = append(p.problems, converge.Fail(api.ReasonExportRefused, "export of %s: %v", e.directory, err))
		return false
	}
	found, err := p.Host.Directories.InspectInside(e.mountPath, m.Device, rel)
	var refused *host.PathError
	switch {
	case errors.As(err, &refused):
		p.problems = append(p.problems, converge.Fail(api.ReasonExportRefused, "not exported: %v", err))
		return false
	case err != nil:
		p.problems = append(p.problems, converge.Wait(api.ReasonNotMounted, "not exported: %v", err))
		return false
	}
	want := host.Shared{Exists: true, UID: e.owner.UID, GID: e.owner.GID, Mode: 0o755}
	right := found.Exists && (!e.mustOwn || found.UID == want.UID && found.GID == want.GID && found.Mode&0o700 == 0o700)
	again := slices.ContainsFunc(p.actions, func(a converge.Action) bool { return a.Group == e.directory })
	if right || again {
		return true
	}
	if found.Exists {
		want.Mode = 0o700 // the rights of group and others stay as they are
	}
	p.actions = append(p.actions, converge.Action{
		Summary: "make " + e.directory + " a directory of " + e.owner.String(), Group: e.directory,
		Do: func(context.Context) error {
			return p.Host.Directories.MakeInside(e.mountPath, m.Device, rel, want)
		},
	})
	return true
}
