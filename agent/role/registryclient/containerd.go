package registryclient

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/role/registryclient/containerdconf"
	"github.com/nodehitch/nodehitch/agent/role/registryclient/probe"
	"github.com/nodehitch/nodehitch/shared/api"
)

// cri is containerd's configuration as its CRI plugin, and so kubelet, uses it.
type cri struct {
	*containerdconf.OnMachine
	runs bool
}

const containerdGroup = "containerd"

// containerd plans a hosts.toml for each registry, which containerd reads at every pull.
// If containerd has no config_path that it would use, it also plans config_path and one
// restart. If the restart failed, or containerd was not running, a later pass restarts it.
// config_path stays when the registries are removed: it has no effect without any hosts.toml,
// and removing it would take another restart.
func (p *plan) containerd(ctx context.Context) {
	c := p.cri
	if c == nil {
		return
	}
	switch {
	case len(c.Config.Legacy) > 0:
		p.problem(converge.Wait(api.ReasonLegacyRegistryConfig,
			"%s has %s; together with config_path, these settings keep containerd from serving Kubernetes; move them to %s/<server>/hosts.toml",
			c.Path, strings.Join(c.Config.Legacy, ", "), containerdconf.Directory))
		p.uncertain = true
		return
	case len(c.Config.Directories()) > 0:
	default:
		content, err := p.withConfigPath(ctx, c)
		if err != nil {
			p.problem(err)
			p.uncertain = true
			return
		}
		p.setConfigPath(c, content)
	}
	if c.runs && (p.have.Restart || slices.ContainsFunc(p.actions, func(a converge.Action) bool { return a.Group == containerdGroup })) {
		p.do(containerdGroup, "restart "+containerdUnit, p.restartContainerd)
	}
	for _, each := range p.connections {
		p.hostsTOML(c.directories()[0], each)
	}
}

// directories are where containerd looks for hosts.toml, once config_path is set.
func (c *cri) directories() []string {
	if dirs := c.Config.Directories(); len(dirs) > 0 {
		return dirs
	}
	return []string{c.Config.Wanted()}
}

// readCRI reads containerd's configuration, if Kubernetes uses this machine's containerd.
func (p *plan) readCRI(ctx context.Context) {
	if len(p.connections) == 0 {
		return
	}
	had := p.engine
	has, runs := p.running(ctx, containerdUnit)
	if !has {
		p.uncertain = true
		return
	}
	c, err := containerdconf.ReadMachine(ctx, p.Host)
	switch {
	case err != nil:
		p.problem(err)
		p.uncertain = true
	case c.Config.CRIDisabled:
		p.engine = had
		p.uncertain = true
	default:
		p.cri = &cri{c, runs}
	}
}

// withConfigPath returns the content of config.toml with a config_path that this containerd
// reads, and with no other effect.
func (s *step) withConfigPath(ctx context.Context, c *cri) ([]byte, error) {
	wanted := c.Config.Wanted()
	candidates, err := containerdconf.Candidates(c.Content, c.Version, wanted)
	if err != nil {
		return nil, invalid(c.Path, err)
	}
	for _, candidate := range candidates {
		after, err := s.Host.Programs.ContainerdConfig(ctx, c.Path, candidate)
		if err != nil && host.Refusal(err) == nil {
			return nil, err
		}
		if err == nil && containerdconf.Sets(c.Dump, after, wanted) {
			return candidate, nil
		}
	}
	return nil, converge.Wait(api.ReasonEngineConfigInvalid, "containerd %s would not use a config_path that is set in %s, because of %s; write config_path = %q for its CRI plugin's registry there, and restart containerd",
		c.Version, c.Path, s.overriding(c), wanted)
}

// overriding names the files that may keep containerd from using a config_path of its
// main file: those that have a table of the same plugin too, else all that are imported.
func (s *step) overriding(c *cri) string {
	var mention, others []string
	for _, path := range containerdconf.Imported(c.Dump) {
		content, err := s.read(path)
		switch {
		case path == c.Path || err != nil || content == nil:
		case containerdconf.Mentions(content):
			mention = append(mention, path)
		default:
			others = append(others, path)
		}
	}
	for _, files := range [][]string{mention, others} {
		if len(files) > 0 {
			return "what it imports (" + strings.Join(files, ", ") + ")"
		}
	}
	return "the way in which the file is written"
}

// setConfigPath plans config_path. The inventory records that a restart has to follow:
// containerd does not tell which configuration it has read.
func (p *plan) setConfigPath(c *cri, changed []byte) {
	e := edit{path: c.Path, mode: publicMode, change: func(content []byte) ([]byte, error) {
		if !bytes.Equal(content, c.Content) {
			return nil, converge.Wait(api.ReasonEngineConfigInvalid, "%s was changed just now; the agent reads it again", c.Path)
		}
		return changed, nil
	}}
	p.do(containerdGroup, "set config_path in "+c.Path+" to "+c.Config.Wanted(), func(context.Context) error {
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
	h := containerdconf.Host{Server: probe.Endpoint(c.Server), HTTPS: c.Scheme == api.RegistryHTTPS}
	if ref := c.ca(); ref != nil {
		ca, _, err := p.certificatePath(c.Server, *ref)
		if err != nil {
			return // certificates reports it
		}
		h.CAFiles = []string{ca}
	}
	if c.untrusted != nil {
		return // trusts reports it
	}
	for _, ca := range c.trust.cas {
		h.CAFiles = add(h.CAFiles, ca)
	}
	h.Client = c.trust.pairs
	path := filepath.Join(dir, containerdconf.DirectoryName(c.Server), hostsTOMLName)
	if p.hides(c, path) {
		return
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

// hides reports whether the file would have no effect, or take away what works: the first
// directory that exists is the only one that containerd reads.
func (p *plan) hides(c *connection, path string) bool {
	dir := p.hidden(c.Server)
	if dir == "" || dir == filepath.Dir(path) {
		return false
	}
	other := filepath.Join(dir, hostsTOMLName)
	found, err := p.read(other)
	first := slices.Contains(containerdconf.DirectoryNamesBefore(c.Server), filepath.Base(dir))
	switch {
	case err != nil:
		p.problem(err)
		return true
	case filepath.Base(dir) == defaultDirectory:
		// It may be the only way to the registry, such as a mirror.
		written := slices.Contains(p.have.Files, ownedPart{path, c.Server})
		return found != nil && !written && (c.err != nil || !c.probed)
	case first || found != nil:
		p.problem(converge.Wait(api.ReasonEngineConfigInvalid,
			"%s exists, and containerd reads it instead of %s, which %s needs; move it away", dir, path, c.Server))
		return true
	}
	return false
}
