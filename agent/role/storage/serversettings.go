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
// if nfsdcld runs, because else the kernel records its clients elsewhere without a word.
func (s settings) serverDropIn(setsScope bool) string {
	var text string
	if s.records != "" {
		text = fmt.Sprintf("[Unit]\nWants=%s\nAfter=%s\n\n[Service]\nExecStartPre=/usr/bin/systemctl --quiet is-active %s\n", nfsdcld, nfsdcld, nfsdcld)
	}
	if !setsScope {
		text += fmt.Sprintf(`[Service]
ExecStartPre=-/usr/bin/umount --quiet %[1]s
ExecStartPre=/usr/bin/touch %[1]s
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
// nfsdcld, which has a file open there, before the volume is unmounted.
func (s settings) recordsDropIn() string {
	if s.records == "" {
		return ""
	}
	return header + fmt.Sprintf("[Unit]\nRequiresMountsFor=%s\nConditionPathIsMountPoint=%s\n", specifiers(s.records), specifiers(s.mountPath))
}

func dropInPath(unit string) string { return filepath.Join(unitDirectory, unit+".d", dropIn) }

// files are the files of the settings in the order in which they are written; one without
// content is not there.
func (s *steps) files(ctx context.Context, want settings) ([]file, error) {
	if s.setsScope == nil { // asked once, because it costs a process
		sets, err := s.Host.NFS.SetsScope(ctx)
		if err != nil {
			return nil, err
		}
		s.setsScope = &sets
	}
	return []file{
		{dropInPath(nfsServer), want.serverDropIn(*s.setsScope)},
		{dropInPath(nfsdcld), want.recordsDropIn()},
		{settingsPath, want.configuration()},
	}, nil
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
		err := error(nil)
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

// serves reports whether clients can know the NFS server: something is exported, or a client
// has a lease.
func (s *steps) serves(ctx context.Context) (bool, host.NFSState, error) {
	state, err := s.Host.NFS.State()
	if err != nil || state.Threads == 0 || state.Clients > 0 {
		return state.Threads > 0 && state.Clients > 0, state, err
	}
	exported, err := s.Host.NFS.Exported(ctx)
	return len(exported) > 0, state, err
}

// settle plans the settings, before anything is exported. A server that serves without them
// keeps what it has: to restart it with another scope would cost its clients their locks.
func (p *exportPlan) settle(ctx context.Context, want settings, mounted map[string]host.Mount, installing bool) error {
	var volume host.Mount
	if want.records != "" {
		var ok bool
		if volume, ok = mounted[want.mountPath]; !ok {
			return converge.Wait(api.ReasonNotMounted, "nothing more is exported: the record of the NFS server's clients belongs to the volume at %s, which is not mounted", want.mountPath)
		}
	}
	apply := func() {
		p.do("set up the NFS server as "+want.scope, func(ctx context.Context) error { return p.apply(ctx, want, volume) })
	}
	if installing {
		apply()
		return nil
	}
	have, err := p.owned()
	if err != nil {
		return err
	}
	files, err := p.files(ctx, want)
	if err != nil {
		return err
	}
	differ, err := p.differing(files)
	if err != nil {
		return err
	}
	serves, state, err := p.serves(ctx)
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
	known := have.Scope == want.scope
	if want.records != "" && state.Version3 {
		p.notes = "; NFSv3 is offered too until nfs-server starts again, and no server that replaces this one offers it"
	}
	switch {
	case serves && !known && len(differ) == 0: // the inventory was lost
		p.do("remember the settings of the NFS server", func(context.Context) error {
			return p.own(func(o *owned) { o.Scope, o.Records = want.scope, want.records })
		})
	case serves && !known && want.records == "":
	case serves && !known:
		return converge.Wait(api.ReasonClientsNotRecorded,
			"the NFS server was not set up by this agent and serves already, so its clients know it by another name than a server that replaces it: stop nfs-server while nobody has mounted from it, or heal with `withdraw` once")
	case !known || len(differ) > 0 || elsewhere || unused && !serves:
		apply()
	case unused && want.records != "":
		return converge.Wait(api.ReasonClientsNotRecorded,
			"the kernel does not use nfsdcld, so the NFS server's clients are not recorded in %s: restart nfs-server while nobody has mounted from it", want.records)
	}
	return nil
}

// apply gives the NFS server its settings: the record first, then the configuration, then the
// start. A crash anywhere leaves a record that is whole and a configuration that leads to it.
func (s *steps) apply(ctx context.Context, want settings, volume host.Mount) error {
	serves, _, err := s.serves(ctx)
	if err != nil {
		return err
	}
	have, err := s.owned()
	if err != nil || serves && have.Scope != want.scope {
		return err // what serves is left as it is; the next plan says so
	}
	err = s.own(func(o *owned) {
		if !serves {
			o.Scope = ""
		}
		if want.records != "" {
			o.Records = want.records
		}
	})
	if err != nil {
		return err
	}
	if want.records != "" {
		rel, err := filepath.Rel(want.mountPath, want.records)
		if err != nil {
			return err
		}
		if err := s.Host.Directories.MakeInside(want.mountPath, volume.Device, rel, host.Shared{Mode: 0o700}); err != nil {
			return err
		}
	}
	if err := s.moveRecord(ctx, want.recordsIn(have), serves); err != nil {
		return err
	}
	files, err := s.files(ctx, want)
	if err != nil {
		return err
	}
	if err := s.writeSettings(ctx, files); err != nil {
		return err
	}
	if err := s.start(ctx, want, have, serves); err != nil {
		return serverDoesNotRun(err)
	}
	return s.own(func(o *owned) { o.Scope, o.Records = want.scope, want.records })
}

// start lets the settings take effect, if the NFS server runs. One that serves only gets its
// record back.
func (s *steps) start(ctx context.Context, want settings, have owned, serves bool) error {
	server, err := s.Host.Units.Unit(ctx, nfsServer)
	if err != nil || server.Active != "active" {
		return err
	}
	if directory := want.recordsIn(have); directory != "" {
		if err := s.startRecord(ctx, directory); err != nil {
			return err
		}
	}
	if serves {
		return nil
	}
	return s.Host.Units.Restart(ctx, nfsServer)
}
