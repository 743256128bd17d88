package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

// exportsPath is ours alone; /etc/exports is the operator's.
const exportsPath = "/etc/exports.d/nodehitch.exports"

// entry is one line of the exports file.
type entry struct {
	directory, mountPath, client string
	options                      []string
	// owner owns the directory if it does not exist yet, and in any case if mustOwn.
	owner   grammar.AnonymousAccount
	mustOwn bool
}

// entriesOf returns the desired entries in the order of the file. An export that is on
// none of the volumes, that exports(5) could misread, or that has another option than those
// offered, is an error: the controller has checked it, and the agent checks it again.
func entriesOf(section *api.StorageSection) ([]entry, error) {
	var entries []entry
	for _, e := range section.Exports {
		client, err := grammar.ExportClient(e.Client)
		if err != nil {
			return nil, fmt.Errorf("export of %s: its client %w", e.Directory, err)
		}
		if _, err := grammar.AbsolutePath(e.Directory); err != nil {
			return nil, fmt.Errorf("export of %w", err)
		}
		i := slices.IndexFunc(section.Volumes, func(v api.StorageVolume) bool { return grammar.Under(e.Directory, v.MountPath) })
		if i < 0 {
			return nil, fmt.Errorf("export of %s: it is on none of the volumes, and the root disk is never exported", e.Directory)
		}
		if err := errors.Join(grammar.ExportOptions(e.Options)...); err != nil {
			return nil, fmt.Errorf("export of %s: its option %w", e.Directory, err)
		}
		mountPath := section.Volumes[i].MountPath
		// mountpoint= without a path would require the exported directory to be a mount.
		options := append(slices.Clone(e.Options), "mountpoint="+mountPath)
		owner, mustOwn := grammar.ExportAccount(e.Options)
		entries = append(entries, entry{e.Directory, mountPath, client.String(), options, owner, mustOwn})
	}
	if err := agreeOnOwners(entries); err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b entry) int {
		if c := cmp.Compare(a.directory, b.directory); c != 0 {
			return c
		}
		return cmp.Compare(a.client, b.client)
	})
	return slices.CompactFunc(entries, func(a, b entry) bool { return a.directory == b.directory && a.client == b.client }), nil
}

// agreeOnOwners gives all entries of a directory the same owner: the account as which
// clients write there. Two accounts are an error, because each pass would take the
// directory from one of them.
func agreeOnOwners(entries []entry) error {
	owners := map[string]grammar.AnonymousAccount{}
	for _, e := range entries {
		other, known := owners[e.directory]
		if e.mustOwn && known && other != e.owner {
			return fmt.Errorf("exports of %s: all clients write as %s to one, and as %s to another; a directory has one owner", e.directory, other, e.owner)
		}
		if e.mustOwn {
			owners[e.directory] = e.owner
		}
	}
	for i := range entries {
		if owner, known := owners[entries[i].directory]; known {
			entries[i].owner, entries[i].mustOwn = owner, true
		}
	}
	return nil
}

// exportsFile is the content of the file for these entries.
func exportsFile(entries []entry) string {
	var b strings.Builder
	b.WriteString(header)
	for _, e := range entries {
		fmt.Fprintf(&b, "%s %s(%s)\n", e.directory, e.client, strings.Join(e.options, ","))
	}
	return b.String()
}

// guardedBy reports whether an export is one of ours on the volume at this mount point.
func guardedBy(e host.Export, mountPath string) bool {
	return slices.Contains(e.Options, "mountpoint="+mountPath)
}

// unexport removes the exports of a volume from our file and from the server's table,
// so that the volume can be unmounted.
func (s *steps) unexport(ctx context.Context, mountPath string) error {
	content, err := s.Host.Files.Read(exportsPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var kept strings.Builder
	for line := range strings.Lines(string(content)) {
		directory, _, _ := strings.Cut(line, " ")
		if !grammar.Under(directory, mountPath) {
			kept.WriteString(line)
		}
	}
	if kept.String() != string(content) {
		if err := s.Host.Files.Write(exportsPath, []byte(kept.String()), 0o644); err != nil {
			return err
		}
	}
	if there, err := s.serverIsThere(ctx); err != nil || !there {
		return err // nothing is exported
	}
	return s.unexportWhere(ctx, func(e host.Export) bool { return guardedBy(e, mountPath) })
}

// unexportWhere removes entries from the server's table. exportfs -ra alone keeps an
// entry whose mountpoint= is not mounted (nfs-utils 2.6).
func (s *steps) unexportWhere(ctx context.Context, unwanted func(host.Export) bool) error {
	exported, err := s.Host.NFS.Exported(ctx)
	if err != nil {
		return err
	}
	var failures []error
	for _, e := range exported {
		if unwanted(e) {
			failures = append(failures, s.Host.NFS.Unexport(ctx, e.Directory, e.Client))
		}
	}
	if len(failures) > 0 {
		failures = append(failures, s.Host.NFS.Flush(ctx))
	}
	return errors.Join(failures...)
}
