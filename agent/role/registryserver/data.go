package registryserver

import (
	"context"
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/role/storage"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

// dataMode keeps other users of the machine from reading the images; the registry itself
// runs as root. An existing directory keeps its mode.
const dataMode = 0o700

// place is where the data is.
type place struct {
	exists bool
	// make makes the directory.
	make func(context.Context) error
	// device and root identify the directory in a mount table with a bind mount of it; root is
	// "" if they are unknown.
	device host.Number
	root   string
}

// place inspects the data directory. If it belongs on a volume of the document, the volume
// must be mounted. Otherwise the data would go to the root disk, and would be hidden as soon
// as the volume is mounted.
func (p *plan) place() (place, error) {
	directory := p.section.DataDirectory
	if v := p.volume(); v != nil {
		return p.onVolume(v)
	}
	found, err := p.Host.Directories.Inspect(directory)
	if err != nil {
		return place{}, err
	}
	if found.Exists && found.NotDirectory != "" {
		return place{}, converge.Fail(api.ReasonDirectoryUnusable, "the data directory %s is %s; expected a directory or nothing: move it away", directory, found.NotDirectory)
	}
	if why := grammar.SystemDirectory(found.Real); why != "" {
		return place{}, converge.Fail(api.ReasonDirectoryUnusable, "the data directory %s leads to %s, which %s; remove the symbolic link, or choose another directory", directory, found.Real, why)
	}
	at := place{exists: found.Exists, make: func(context.Context) error { return p.Host.Directories.Make(directory, dataMode) }}
	mounts, err := p.Host.Mounts.List()
	if err != nil {
		return place{}, err
	}
	if m := below(mounts, found.Real); m != nil {
		at.device, at.root = m.Device, rootOf(*m, found.Real)
	}
	return at, nil
}

// volume is the volume of the document that has the data, nil for the root disk.
func (p *plan) volume() *api.StorageVolume {
	if p.desired.Storage == nil {
		return nil
	}
	volumes := p.desired.Storage.Volumes
	i := slices.IndexFunc(volumes, func(v api.StorageVolume) bool {
		return grammar.Under(p.section.DataDirectory, v.MountPath)
	})
	if i < 0 {
		return nil
	}
	return &volumes[i]
}

// onVolume refuses a volume that is not mounted.
func (p *plan) onVolume(v *api.StorageVolume) (place, error) {
	directory := p.section.DataDirectory
	m, err := storage.Mounted(p.Host, v)
	if err != nil {
		return place{}, converge.Wait(api.ReasonNotMounted, "the volume of the registry's data is not mounted, so the registry does not run: %v; see VolumesMounted", err)
	}
	rel, err := filepath.Rel(v.MountPath, directory)
	if err != nil {
		return place{}, err
	}
	found, err := p.Host.Directories.InspectInside(v.MountPath, m.Device, rel)
	var refused *host.PathError
	switch {
	case errors.As(err, &refused):
		return place{}, converge.Fail(api.ReasonDirectoryUnusable, "the data directory cannot be used: %v", err)
	case err != nil:
		return place{}, converge.Wait(api.ReasonNotMounted, "the data directory %s cannot be inspected: %v", directory, err)
	}
	return place{
		exists: found.Exists, device: m.Device, root: rootOf(m, directory),
		make: func(context.Context) error {
			return p.Host.Directories.MakeInside(v.MountPath, m.Device, rel, host.Shared{Exists: true, Mode: dataMode})
		},
	}, nil
}

// below is the mount that a path is on, nil if the table has none.
func below(mounts []host.Mount, of string) *host.Mount {
	var found *host.Mount
	for i, m := range mounts {
		inside := of == m.Point || strings.HasPrefix(of, strings.TrimSuffix(m.Point, "/")+"/")
		if inside && (found == nil || len(m.Point) >= len(found.Point)) {
			found = &mounts[i]
		}
	}
	return found
}

// rootOf is the path within the mounted filesystem.
func rootOf(m host.Mount, of string) string {
	return path.Join(m.Root, strings.TrimPrefix(of, strings.TrimSuffix(m.Point, "/")))
}

// directory plans to make the data directory. It is never removed.
func (p *plan) directory(at place) {
	if !at.exists {
		p.do("make the data directory "+p.section.DataDirectory, at.make)
	}
}

// sees reports whether a running container uses the current data directory. It does not after
// a volume was mounted or unmounted, or after the directory was removed and made again.
func (p *plan) sees(c *host.Container, at place) bool {
	mounts, err := p.Host.Mounts.OfProcess(c.PID)
	if err != nil || at.root == "" {
		return true // it has ended in between, or nothing is known: no reason to stop it
	}
	for _, m := range slices.Backward(mounts) {
		if m.Point == dataInside {
			return m.Device == at.device && m.Root == at.root
		}
	}
	return true
}

// withoutData returns why there is no place for the data. It also stops a container that runs
// anyway, because images pushed to it now would be hidden later.
func (p *plan) withoutData(ctx context.Context, up bool, why error) error {
	if !up {
		return why
	}
	c, err := p.Host.Engine.Container(ctx, containerName)
	if err != nil {
		return errors.Join(why, engineProblem(err))
	}
	var waiting *converge.Waiting
	if away := errors.As(why, &waiting) && waiting.Reason == api.ReasonNotMounted; away && ours(c) && (c.PID != 0 || c.Status == "restarting") {
		p.do("stop the container "+containerName+", whose volume is not mounted", func(ctx context.Context) error {
			return engineProblem(p.Host.Engine.Stop(ctx, containerName))
		})
	}
	return why
}
