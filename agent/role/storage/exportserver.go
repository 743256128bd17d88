package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// file plans the exports file.
func (p *exportPlan) file(entries []entry) error {
	content := []byte(exportsFile(entries))
	same, err := p.Host.Files.Same(exportsPath, content, 0o644)
	if err == nil && !same {
		p.do("write "+exportsPath, func(context.Context) error { return p.Host.Files.Write(exportsPath, content, 0o644) })
	}
	return err
}

// server plans that the NFS server is enabled and runs with its settings, also if its package
// is still to be installed.
func (p *exportPlan) server(ctx context.Context) error {
	state, err := p.Host.Units.Unit(ctx, nfsServer)
	if err != nil {
		return err
	}
	if state.File != "enabled" || state.Active != "active" || p.installing || p.setUp {
		p.do("enable and start "+nfsServer, p.startServer)
	}
	return nil
}

func (p *exportPlan) startServer(ctx context.Context) error {
	state, err := p.Host.Units.Unit(ctx, nfsServer)
	if err != nil {
		return err
	}
	if p.installing || state.File != "enabled" {
		if err := p.own(func(o *owned) { o.Server = true }); err != nil {
			return err
		}
	}
	if state.File != "enabled" {
		if err := errors.Join(p.Host.Units.Enable(ctx, nfsServer), p.Host.Units.Reload(ctx)); err != nil {
			return serverDoesNotRun(err)
		}
	}
	if state.Active != "active" {
		if directory := p.settings.records; directory != "" {
			if err := p.startRecord(ctx, directory); err != nil {
				return err
			}
		}
		if err := p.Host.Units.Start(ctx, nfsServer); err != nil {
			return serverDoesNotRun(err)
		}
	}
	if !p.setUp {
		return nil
	}
	return p.settled()
}

// serverIsThere reports whether there is an NFS server, also of an installation that was cut off.
func (s *steps) serverIsThere(ctx context.Context) (bool, error) {
	unit, err := s.Host.Units.Unit(ctx, nfsServer)
	return unit.Loaded != "not-found", err
}

func serverDoesNotRun(err error) error {
	return converge.Wait(api.ReasonServerNotRunning, "%v", err)
}

// unwanted selects the exports to remove: those with our mountpoint= that are not
// desired. Other exports of the same directories belong to the operator.
func (p *exportPlan) unwanted(ctx context.Context, entries []entry) func(host.Export) bool {
	return func(e host.Export) bool {
		ours := slices.ContainsFunc(p.section.Volumes, func(v api.StorageVolume) bool { return guardedBy(e, v.MountPath) })
		desired := func(wanted entry) bool {
			return e.Directory == wanted.directory && p.sameClient(ctx, wanted.client, e.Client)
		}
		return ours && !slices.ContainsFunc(entries, desired)
	}
}

// reexport plans to make the server's table equal our file.
func (p *exportPlan) reexport(group string, entries []entry) {
	p.actions = append(p.actions, converge.Action{Summary: "export the entries of the file", Group: group, Do: func(ctx context.Context) error {
		said := p.Host.NFS.Reexport(ctx)
		if err := p.unexportWhere(ctx, p.unwanted(ctx, entries)); err != nil {
			return err
		}
		if err := p.Host.NFS.Flush(ctx); err != nil {
			p.Log.Warn("the NFS server's export cache could not be flushed", "error", err)
		}
		return p.verify(ctx, entries, said)
	}})
}

// verify checks the table: exportfs also reports errors of the operator's entries, so
// its exit code does not tell whether it accepted ours.
func (p *exportPlan) verify(ctx context.Context, entries []entry, said error) error {
	exported, err := p.Host.NFS.Exported(ctx)
	if err != nil {
		return err
	}
	var refused []string
	for _, e := range entries {
		if !p.served(ctx, e, exported) {
			refused = append(refused, fmt.Sprintf("%s to %s (%s)", e.directory, e.client, strings.Join(e.options, ",")))
		}
	}
	if len(refused) == 0 {
		return nil
	}
	message := "exportfs does not report " + strings.Join(refused, ", ") + " as desired; look for another line for the same in /etc/exports and /etc/exports.d"
	if said != nil {
		message += "; it says: " + said.Error()
	}
	return converge.Wait(api.ReasonExportRefused, "%s", message)
}

// planRemoval removes our exports. It also stops the server if the agent started it
// and nothing else is exported.
func (s *exports) planRemoval(ctx context.Context) (converge.Plan, error) {
	plan := converge.Plan{Reason: api.ReasonRemoved, Message: "nothing is to be exported, and nothing of ours is"}
	have, err := s.owned()
	if err != nil {
		return plan, err
	}
	_, err = s.Host.Files.Read(exportsPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return plan, err
	}
	if err == nil || have.Server {
		plan.Actions = []converge.Action{
			{Summary: "remove " + exportsPath, Group: exportGroup, Do: s.removeExports},
			{Summary: "leave " + nfsServer, Group: exportGroup, Do: s.leaveServer},
		}
	}
	differ, err := s.differing([]file{{path: dropInPath(nfsServer)}, {path: dropInPath(nfsdcld)}, {path: settingsPath}})
	if err != nil {
		return plan, err
	}
	if len(differ) > 0 || have.Scope+have.Records != "" {
		plan.Actions = append(plan.Actions, converge.Action{Summary: "remove the settings of " + nfsServer, Group: exportGroup, Do: s.leaveSettings})
	}
	return plan, nil
}

// removeExports unexports the entries of the file before it removes the file, because exportfs -ra
// alone would keep those whose volume is not mounted. exportfs -ra then exports again what a file
// of the operator's also has.
func (s *exports) removeExports(ctx context.Context) error {
	content, err := s.Host.Files.Read(exportsPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if there, err := s.serverIsThere(ctx); err != nil {
		return err
	} else if !there {
		return s.Host.Files.Remove(exportsPath)
	}
	written := host.ParseExports(string(content))
	ours := func(e host.Export) bool {
		return slices.ContainsFunc(written, func(w host.Export) bool {
			return e.Directory == w.Directory && s.sameClient(ctx, w.Client, e.Client)
		})
	}
	if err := s.unexportWhere(ctx, ours); err != nil {
		return err
	}
	if err := s.Host.Files.Remove(exportsPath); err != nil {
		return err
	}
	if err := s.Host.NFS.Reexport(ctx); err != nil {
		s.Log.Warn("exportfs reports an error", "error", err)
	}
	exported, err := s.Host.NFS.Exported(ctx)
	if err != nil {
		return err
	}
	for _, e := range exported {
		if ours(e) {
			s.Log.Info("still exported, by another file", "directory", e.Directory, "client", e.Client)
		}
	}
	return s.Host.NFS.Flush(ctx)
}

func (s *exports) leaveServer(ctx context.Context) error {
	have, err := s.owned()
	if err != nil || !have.Server {
		return err
	}
	there, err := s.serverIsThere(ctx)
	if err != nil {
		return err
	}
	if there {
		exported, err := s.Host.NFS.Exported(ctx)
		if err != nil {
			return err
		}
		if len(exported) == 0 {
			if err := s.Host.Units.Stop(ctx, nfsServer); err != nil {
				return err
			}
			if err := errors.Join(s.Host.Units.Disable(ctx, nfsServer), s.Host.Units.Reload(ctx)); err != nil {
				return err
			}
		}
	}
	return s.own(func(o *owned) { o.Server = false })
}
