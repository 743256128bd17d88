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

// cri is containerd's configuration as its CRI plugin, and so kubelet, has it.
type cri struct {
	path    string
	version containerdconf.Version
	config  containerdconf.Config
	set     containerdconf.Config // what it will be by config_path in config.toml
	runs    bool
}

const containerdGroup = "containerd"

// containerd plans a hosts.toml for each registry, which it reads at every pull, and
// config_path where it has none, for which it is restarted once. A config_path that
// was set stays when the registries go: without any hosts.toml it changes nothing, and
// to take it away would be another restart.
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
			"%s has %s, beside which config_path would keep containerd from serving Kubernetes; move these settings to %s/<server>/hosts.toml",
			c.path, strings.Join(c.config.Legacy, ", "), containerdconf.Directory))
		p.uncertain = true
		return
	case len(dirs) > 0:
	case len(c.set.Directories()) == 0:
		p.problem(converge.Wait(api.ReasonEngineConfigInvalid,
			"a file that %s imports has a table of containerd's CRI plugin without registry.config_path, and containerd takes that in place of the table in %s; write config_path = %q there",
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

// cri is nil if this machine's containerd is none of Kubernetes's.
func (p *plan) cri(ctx context.Context) (*cri, error) {
	had := p.engine
	has, runs := p.running(ctx, containerdUnit)
	if !has {
		return nil, nil
	}
	said, err := p.Host.Programs.ContainerdVersion(ctx)
	if err != nil {
		return nil, converge.Wait(api.ReasonEngineNotRunning, "%s is there, and its version is not known: %v", containerdUnit, err)
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

// setConfigPath plans config_path. The inventory remembers that a restart has to
// follow: containerd does not say what it has read.
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

// hostsTOML plans the file of one registry. One that the owner wrote is left alone.
func (p *plan) hostsTOML(dir string, c *connection) {
	h := containerdconf.Host{Server: c.Server, HTTPS: c.Scheme == api.RegistryHTTPS}
	if ref := c.ca(); ref != nil {
		ca, _, err := p.certificatePath(c.Server, *ref)
		if err != nil {
			return // said by certificates
		}
		h.CAFile = ca
	}
	path := filepath.Join(dir, containerdconf.DirectoryName(c.Server), hostsTOMLName)
	for _, first := range containerdconf.DirectoryNamesBefore(c.Server) {
		first = filepath.Join(dir, first, hostsTOMLName)
		if found, err := p.read(first); err != nil || found != nil {
			p.problem(errors.Join(err, converge.Wait(api.ReasonEngineConfigInvalid,
				"%s is there, and containerd reads it in place of %s; move it away for what %s needs to be read", first, path, c.Server)))
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
			"%s is there, and the agent did not write it; move it away for what %s needs to be written", path, c.Server))
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
