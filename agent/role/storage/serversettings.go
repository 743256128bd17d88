package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

const (
	settingsPath = "/etc/nfs.conf.d/nodehitch.conf"
	// A client learns the lease when it mounts, and pauses its attempts to connect for at most
	// half of it. The grace lasts as long as both together.
	leaseSeconds, graceSeconds = 30, 45
	// scopeNamespace is there while the NFS server starts.
	scopeNamespace = "/run/nodehitch-nfs-scope"
)

// settings are what the NFS server is started with. Clients know it by them, so they change
// only while it serves nothing; where it records its clients can change at any time.
type settings struct {
	// scope is the same on a server that replaces this one, because it is the filesystem's.
	// Clients that see another scope do not reclaim their opens and locks.
	scope string
	// records is the directory on the volume at mountPath for the record of its clients, "" for
	// that of nfs-utils.
	records, mountPath string
}

// settingsOf are the settings for a section, which has a volume.
func settingsOf(section *api.StorageSection) (settings, error) {
	first := section.Volumes[0]
	s := settings{scope: "nodehitch-" + first.FilesystemUUID, records: section.ClientRecords, mountPath: first.MountPath}
	if s.records == "" {
		return s, nil
	}
	if _, err := grammar.AbsolutePath(s.records); err != nil {
		return s, fmt.Errorf("clientRecords %w", err)
	}
	if s.records == s.mountPath || !grammar.Under(s.records, s.mountPath) {
		return s, fmt.Errorf("clientRecords %s: expected a directory on the first volume, below %s", s.records, s.mountPath)
	}
	for _, e := range section.Exports {
		switch {
		case grammar.Under(s.records, e.Directory) || grammar.Under(e.Directory, s.records):
			return s, fmt.Errorf("clientRecords %s: clients could reach it through the export of %s", s.records, e.Directory)
		case slices.Contains(e.Options, "no_root_squash"):
			return s, fmt.Errorf("clientRecords %s: a client's root could reach it by a guessed handle, because the export of %s has no_root_squash", s.records, e.Directory)
		}
	}
	return s, nil
}

// configuration is what nfs.conf(5) has of these settings. The grace is lockd's too. NFSv3 has
// no reclaim from a server that replaces this one: its clients would lose their locks unseen.
func (s settings) configuration() string {
	text := header + fmt.Sprintf("[nfsd]\nscope=%s\nlease-time=%d\ngrace-time=%d\n", s.scope, leaseSeconds, graceSeconds)
	if s.records != "" {
		text += "vers3=n\n\n[nfsdcld]\nstoragedir=" + s.records + "\n"
	}
	return text
}

// serverDropIn lets rpc.nfsd set the scope if it cannot do that itself: the kernel takes the
// host name that the starting process sees. With a record on a volume the server starts only
// if nfsdcld runs, because the kernel otherwise records its clients elsewhere and reports no error.
func (s settings) serverDropIn(setsScope bool) string {
	var text string
	if s.records != "" {
		text = fmt.Sprintf("[Unit]\nWants=%s\nAfter=%s\n\n[Service]\nExecStartPre=/usr/bin/systemctl --quiet is-active %s\n", nfsdcld, nfsdcld, nfsdcld)
	}
	if !setsScope {
		text += fmt.Sprintf(`[Service]
ExecStartPre=-/usr/bin/touch %[1]s
ExecStartPre=-/usr/bin/umount --quiet %[1]s
ExecStartPre=/usr/bin/unshare --uts=%[1]s hostname %[2]s
ExecStart=
ExecStart=/usr/bin/nsenter --uts=%[1]s /usr/sbin/rpc.nfsd
ExecStartPost=/usr/bin/umount %[1]s
`, scopeNamespace, s.scope)
	}
	if text == "" {
		return ""
	}
	return header + text
}

// recordsDropIn lets nfsdcld run only while the volume is mounted. RequiresMountsFor also ends
// nfsdcld, which has a file open there, before the volume is unmounted. nfsdcld tells systemd that
// it runs before it opens its database, and the kernel gives it one second for that. So a slow
// volume is read before.
func (s settings) recordsDropIn() string {
	if s.records == "" {
		return ""
	}
	return header + fmt.Sprintf(`[Unit]
RequiresMountsFor=%s
ConditionPathIsMountPoint=%s

[Service]
ExecStartPre=-/usr/bin/dd if=%s of=/dev/null status=none
`, specifiers(s.records), specifiers(s.mountPath), specifiers(filepath.Join(s.records, database)))
}

func dropInPath(unit string) string { return filepath.Join(unitDirectory, unit+".d", dropIn) }

// files are the files of the settings in the order in which they are written; one without
// content is not there. Before the package is installed, rpc.nfsd cannot be asked. The drop-in
// that sets the scope is right for each version, so it stays.
func (p *exportPlan) files(ctx context.Context) ([]file, error) {
	server := file{dropInPath(nfsServer), p.settings.serverDropIn(false)}
	stays, err := p.Host.Files.Same(server.path, []byte(server.content), 0o644)
	if err == nil && !stays && !p.installing {
		if p.setsScope == nil { // asked once, because it costs a process
			sets, err := p.Host.NFS.SetsScope(ctx)
			if err != nil {
				return nil, err
			}
			p.setsScope = &sets
		}
		server.content = p.settings.serverDropIn(*p.setsScope)
	}
	return []file{
		server,
		{dropInPath(nfsdcld), p.settings.recordsDropIn()},
		{settingsPath, p.settings.configuration()},
	}, err
}

// differing are those of the files that are not as they should be.
func (s *steps) differing(files []file) ([]file, error) {
	var differ []file
	for _, f := range files {
		same, err := s.Host.Files.Same(f.path, []byte(f.content), 0o644)
		if f.content == "" {
			_, err = s.Host.Files.Read(f.path)
			if same = errors.Is(err, fs.ErrNotExist); same {
				err = nil
			}
		}
		if err != nil {
			return nil, err
		}
		if !same {
			differ = append(differ, f)
		}
	}
	return differ, nil
}

// writeSettings writes files, or removes those without content, and lets systemd read them.
func (s *steps) writeSettings(ctx context.Context, files []file) error {
	for _, f := range files {
		var err error
		if f.content == "" {
			err = s.Host.Files.Remove(f.path)
		} else {
			err = s.Host.Files.Write(f.path, []byte(f.content), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return s.Host.Units.Reload(ctx)
}

// serverState is that of the NFS server.
type serverState struct {
	host.NFSState
	// serves: clients can know it, because something is exported, or a client has a lease.
	serves bool
	// ended: somebody has ended all its threads, and its unit is active.
	ended bool
}

// serverState is not known while systemd is about to start the server, as at boot.
func (s *steps) serverState(ctx context.Context) (state serverState, err error) {
	unit, err := s.Host.Units.Unit(ctx, nfsServer) // before the kernel's: a job that is over by then has its effect
	if err != nil {
		return state, err
	}
	state.NFSState, err = s.Host.NFS.State()
	switch {
	case err != nil:
		return state, err
	case state.Threads == 0 && unit.Job:
		return state, converge.Wait(api.ReasonServerNotRunning, "systemd is about to start or stop nfs-server; the agent continues after that. If it lasts, see `systemctl list-jobs` and `journalctl -u nfs-server`")
	case state.Threads == 0:
		state.ended = unit.Active == "active"
		return state, nil
	case state.Clients > 0:
		state.serves = true
		return state, nil
	}
	exported, err := s.Host.NFS.Exported(ctx)
	state.serves = len(exported) > 0
	return state, err
}

// settle plans the settings, before anything is exported. A server that serves without them
// keeps what it has: to restart it with another scope would cost its clients their locks. Its
// exports change nevertheless, also who may not mount any more.
func (p *exportPlan) settle(ctx context.Context, mounted map[string]host.Mount) error {
	state, err := p.serverState(ctx)
	if err == nil {
		err = p.planSettings(ctx, mounted, state)
	}
	if state.serves && err != nil {
		p.problems = append(p.problems, err)
		return nil
	}
	return err
}

func (p *exportPlan) planSettings(ctx context.Context, mounted map[string]host.Mount, state serverState) error {
	want, serves := p.settings, state.serves
	var volume host.Mount
	if want.records != "" {
		var ok bool
		if volume, ok = mounted[want.mountPath]; !ok {
			return converge.Wait(api.ReasonNotMounted, "the record of the NFS server's clients belongs to the volume at %s, which is not mounted", want.mountPath)
		}
	}
	have, err := p.owned()
	if err != nil {
		return err
	}
	files, err := p.files(ctx)
	if err != nil {
		return err
	}
	differ, err := p.differing(files)
	if err != nil {
		return err
	}
	var elsewhere, unused bool
	if directory := want.recordsIn(have); directory != "" {
		found, err := p.recorded(ctx)
		if err != nil {
			return err
		}
		elsewhere, unused = found.elsewhere(directory), state.Threads > 0 && !found.used
	}
	if away := p.away(mounted); want.records != "" && !serves && away != "" {
		return converge.Wait(api.ReasonNotMounted, "nothing is served before all volumes are mounted, so that clients wait for the one at %s and do not lose their files", away)
	}
	known := have.Scope == want.scope
	if want.records != "" && state.Version3 {
		p.notes = "; NFSv3 is offered too until nfs-server starts again, and no server that replaces this one offers it"
	}
	// nfsdcld's drop-in does not say by which name clients know the server.
	named := !slices.ContainsFunc(differ, func(f file) bool { return f.path != dropInPath(nfsdcld) })
	if serves && !known && named { // the inventory was lost, or the machine started again before this was noted
		p.do("remember the settings of the NFS server", func(context.Context) error { return p.settled() })
		known = true
	}
	switch {
	case serves && !known:
		return p.asItIs()
	case !known || len(differ) > 0 || elsewhere || unused && !serves || state.ended:
		p.setUp = !serves
		group := exportGroup
		if serves { // its exports change also if this fails
			group += " settings"
		}
		p.actions = append(p.actions, converge.Action{
			Summary: "set up the NFS server as " + want.scope, Group: group,
			Do: func(ctx context.Context) error { return p.apply(ctx, volume) },
		})
	case unused && want.records != "":
		return converge.Wait(api.ReasonClientsNotRecorded,
			"the kernel does not use nfsdcld, so the NFS server's clients are not recorded in %s: restart nfs-server while nobody has mounted from it", want.records)
	}
	return nil
}

// asItIs leaves a server that serves with the name by which its clients know it.
func (p *exportPlan) asItIs() error {
	p.setUp = false
	if p.settings.records == "" {
		return nil
	}
	return converge.Wait(api.ReasonClientsNotRecorded,
		"the NFS server serves already, and its clients know it by another name than a server that replaces it, because this agent did not set it up or another volume was the first then: stop nfs-server while nobody has mounted from it, or heal with `withdraw` once")
}

// away is where a volume with exports is not mounted, "" if all are.
func (p *exportPlan) away(mounted map[string]host.Mount) string {
	for _, v := range p.section.Volumes {
		if _, ok := mounted[v.MountPath]; !ok && p.exportedFrom(v) {
			return v.MountPath
		}
	}
	return ""
}

// settled notes that the NFS server, if it runs, was started with the settings.
func (p *exportPlan) settled() error {
	return p.own(func(o *owned) { o.Scope, o.Records = p.settings.scope, p.settings.records })
}

// apply gives the NFS server its settings: the record first, then the configuration that leads
// to it. One that serves gets its record back at once. Any other one is stopped before that, and
// started when it knows what to export: a client that it refuses meanwhile would lose its files.
// So whatever starts it, it has the settings.
func (p *exportPlan) apply(ctx context.Context, volume host.Mount) error {
	want := p.settings
	state, err := p.serverState(ctx)
	if err != nil {
		return err
	}
	serves := state.serves
	have, err := p.owned()
	if err != nil {
		return err
	}
	if serves && have.Scope != want.scope { // since the plan
		return p.asItIs()
	}
	err = p.own(func(o *owned) {
		if want.records != "" {
			o.Records = want.records
		}
		o.Server = o.Server || p.installing
	})
	if err != nil {
		return err
	}
	unit, err := p.Host.Units.Unit(ctx, nfsServer)
	if err != nil {
		return err
	}
	// While the unit is active, a start of it starts nothing, also if somebody has ended all threads.
	if !serves && (state.Threads > 0 || unit.Active == "active") {
		if want.records != "" && state.Threads > 0 {
			p.Log.Warn("nfs-server ran before it was set up: clients of a server that this one replaces may have lost their files; keep it off until the agent starts it, as the default of storage_server_user_data does")
		}
		if err := p.Host.Units.Stop(ctx, nfsServer); err != nil {
			return serverDoesNotRun(err)
		}
	}
	if want.records != "" {
		rel, err := filepath.Rel(want.mountPath, want.records)
		if err != nil {
			return err
		}
		if err := p.Host.Directories.MakePrivate(want.mountPath, volume.Device, rel); err != nil {
			return converge.Wait(api.ReasonClientsNotRecorded, "no directory for the record of the NFS server's clients: %v", err)
		}
	}
	files, err := p.files(ctx)
	if err != nil {
		return err
	}
	directory := want.recordsIn(have)
	err = p.moveRecord(ctx, directory, serves)
	if err == nil && !serves {
		// The server keeps its name if something above is refused, also if somebody else starts it.
		err = p.own(func(o *owned) { o.Scope = "" })
	}
	if err == nil {
		err = p.writeSettings(ctx, files)
	}
	if err != nil && serves && directory != "" {
		return p.resumeRecord(ctx, err)
	}
	if err != nil || !serves {
		return err
	}
	if directory != "" {
		if err := p.startRecord(ctx, directory); err != nil {
			return err
		}
	}
	return p.settled()
}
