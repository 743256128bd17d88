package registryclient

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/role/registryclient/containerdconf"
	"github.com/nodehitch/nodehitch/shared/api"
)

// cri is containerd's configuration as its CRI plugin, and so kubelet, uses it.
type cri struct {
	path    string
	version containerdconf.Version
	config  containerdconf.Config
	set     containerdconf.Config // the same after config_path is set in config.toml
	runs    bool
}

const containerdGroup = "containerd"

// containerd plans a hosts.toml for each registry, which containerd reads at every pull.
// If config_path is not set, it also plans config_path and one restart. config_path stays
// when the registries are removed: it has no effect without any hosts.toml, and removing
// it would take another restart.
func (p *plan) containerd(ctx context.Context) {
	if len(p.connections) == 0 {
		return
	}
	c, err := p.cri(ctx)
	if err != nil {
		p.problem(err)
	}
	if c == nil {
		p.uncertain = true
		return
	}
	dirs := c.config.Directories()
	switch {
	case len(c.config.Legacy) > 0:
		p.problem(converge.Wait(api.ReasonLegacyRegistryConfig,
			"%s has %s; together with config_path, these settings keep containerd from serving Kubernetes; move them to %s/<server>/hosts.toml",
			c.path, strings.Join(c.config.Legacy, ", "), containerdconf.Directory))
		p.uncertain = true
		return
	case len(dirs) > 0:
	case len(c.set.Directories()) == 0:
		p.problem(converge.Wait(api.ReasonEngineConfigInvalid,
			"a file that %s imports has a table of containerd's CRI plugin without registry.config_path, and that table replaces the one in %s; write config_path = %q in the imported file",
			c.path, c.path, containerdconf.Directory))
		p.uncertain = true
		return
	default:
		dirs = c.set.Directories()
		p.setConfigPath(c, dirs[0])
	}
	if c.runs && (p.have.Restart || slices.ContainsFunc(p.actions, func(a converge.Action) bool { return a.Group == containerdGroup })) {
		p.do(containerdGroup, "restart "+containerdUnit, p.restartContainerd)
	}
	for _, each := range p.connections {
		p.hostsTOML(dirs[0], each)
	}
}

// cri returns nil if Kubernetes does not use this machine's containerd.
func (p *plan) cri(ctx context.Context) (*cri, error) {
	had := p.engine
	has, runs := p.running(ctx, containerdUnit)
	if !has {
		return nil, nil
	}
	said, err := p.Host.Programs.ContainerdVersion(ctx)
	if err != nil {
		return nil, converge.Wait(api.ReasonEngineNotRunning, "the version of %s is unknown: %v", containerdUnit, err)
	}
	c := &cri{path: containerdConfigPath, runs: runs}
	if c.version, err = containerdconf.ParseVersion(said); err != nil {
		return nil, converge.Wait(api.ReasonEngineNotRunning, "%v", err)
	}
	argv, err := p.Host.Units.CommandLine(ctx, containerdUnit)
	if err != nil {
		return nil, err
	}
	if paths := slices.Concat(flagValues(argv, "--config"), flagValues(argv, "-c")); len(paths) > 0 {
		c.path = paths[len(paths)-1]
	}
	files, err := p.containerdConfig(c.path, c.version)
	if err != nil {
		return nil, err
	}
	c.config, c.set = files[0].With(files[1:]...), files[0].Set().With(files[1:]...)
	if c.config.CRIDisabled {
		p.engine = had
		return nil, nil
	}
	return c, nil
}

// largestImport bounds how many files a configuration may import.
const largestImport = 64

// containerdConfig reads the file and what it imports, in containerd's order.
func (s *step) containerdConfig(path string, v containerdconf.Version) ([]containerdconf.Config, error) {
	var all []containerdconf.Config
	seen := map[string]bool{}
	for todo := []string{path}; len(todo) > 0 && len(seen) < largestImport; {
		path, todo = todo[0], todo[1:]
		if seen[path] {
			continue
		}
		seen[path] = true
		content, err := s.read(path)
		if err != nil {
			return nil, err
		}
		c, err := containerdconf.Read(content, v)
		if err != nil {
			return nil, invalid(path, err)
		}
		all = append(all, c)
		for _, pattern := range c.Imported(filepath.Dir(path)) {
			found, err := s.Host.Files.Match(pattern)
			if err != nil {
				return nil, invalid(path, err)
			}
			todo = append(todo, found...)
		}
	}
	return all, nil
}

// setConfigPath plans config_path. The inventory records that a restart has to follow:
// containerd does not tell which configuration it has read.
func (p *plan) setConfigPath(c *cri, directory string) {
	e := edit{path: c.path, mode: publicMode, change: func(content []byte) ([]byte, error) {
		return containerdconf.SetConfigPath(content, c.version)
	}}
	p.do(containerdGroup, "set config_path in "+c.path+" to "+directory, func(context.Context) error {
		return p.apply(e, nil, func(o *owned) { o.Restart = true })
	})
}

func (p *plan) restartContainerd(ctx context.Context) error {
	if err := p.Host.Units.Restart(ctx, containerdUnit); err != nil {
		return converge.Wait(api.ReasonEngineNotRunning, "%v", err)
	}
	return p.own(func(o *owned) { o.Restart = false })
}

// hostsTOML plans the file of one registry. An operator's own file is not changed.
func (p *plan) hostsTOML(dir string, c *connection) {
	h := containerdconf.Host{Server: c.Server, HTTPS: c.Scheme == api.RegistryHTTPS}
	if ref := c.ca(); ref != nil {
		ca, _, err := p.certificatePath(c.Server, *ref)
		if err != nil {
			return // certificates reports it
		}
		h.CAFile = ca
	}
	path := filepath.Join(dir, containerdconf.DirectoryName(c.Server), hostsTOMLName)
	for _, first := range containerdconf.DirectoryNamesBefore(c.Server) {
		first = filepath.Join(dir, first, hostsTOMLName)
		if found, err := p.read(first); err != nil || found != nil {
			p.problem(errors.Join(err, converge.Wait(api.ReasonEngineConfigInvalid,
				"%s exists, and containerd reads it instead of %s, which %s needs; move it away", first, path, c.Server)))
			return
		}
	}
	content := containerdconf.HostsFile(h)
	found, err := p.read(path)
	if err != nil {
		p.problem(err)
		return
	}
	p.keep[path] = true
	part := ownedPart{path, c.Server}
	if found != nil && string(found) != string(content) && !slices.Contains(p.have.Files, part) {
		p.problem(converge.Wait(api.ReasonEngineConfigInvalid,
			"%s exists, and the agent did not write it; move it away so that the agent can write what %s needs", path, c.Server))
		return
	}
	same, err := p.Host.Files.Same(path, content, publicMode)
	if err != nil {
		p.problem(err)
		return
	}
	if same || found != nil && !slices.Contains(p.have.Files, part) {
		return
	}
	p.do(c.group(), "write "+path, func(context.Context) error {
		if err := p.own(func(o *owned) { o.Files = add(o.Files, part) }); err != nil {
			return err
		}
		return p.Host.Files.Write(path, content, publicMode)
	})
}
