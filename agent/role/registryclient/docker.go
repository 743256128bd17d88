package registryclient

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/role/registryclient/dockerconf"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

// running reports whether the unit's engine is in use on this machine, and whether it
// runs. An engine that is installed but neither enabled nor active is not in use.
func (p *plan) running(ctx context.Context, name string) (has, runs bool) {
	u, err := p.Host.Units.Unit(ctx, name)
	if err != nil {
		p.problem(err)
		return false, false
	}
	if u.Loaded != "loaded" || u.Active == "inactive" && u.File != "enabled" {
		return false, false
	}
	p.engine = true
	if u.Active == "active" || u.Active == "reloading" {
		return true, true
	}
	if len(p.connections) > 0 {
		p.problem(converge.Wait(api.ReasonEngineNotRunning, "%s is %s (%s); see `journalctl -u %s`", name, u.Active, u.Sub, name))
	}
	return true, false
}

// daemon is Docker's daemon.json, with what the running daemon makes of it.
type daemon struct {
	path string
	// inFile are the entries of the file, effective those of the engine if it runs (up).
	// flags are the entries on its command line.
	inFile, effective, flags []string
	up                       bool
	// add and remove are the changes to the file.
	add, remove []string
}

// readDocker finds out whether Docker is in use.
func (p *plan) readDocker(ctx context.Context) {
	if len(p.connections)+len(p.have.Insecure) > 0 { // a machine without registries may be without systemd too
		p.docker.has, p.docker.runs = p.running(ctx, dockerUnit)
	}
}

// insecure plans insecure-registries. The daemon is reloaded, never restarted: running
// containers stay.
func (p *plan) insecure(ctx context.Context) {
	runs := p.docker.runs
	if !p.docker.has && len(p.have.Insecure) == 0 {
		return
	}
	d, err := p.daemon(ctx, runs)
	if err != nil {
		p.problem(err)
		return
	}
	if runs && !d.up {
		return // daemon reports it; removals wait too, because the engine has to be reloaded
	}
	if d.up {
		for _, c := range p.connections {
			if c.Scheme == api.RegistryHTTP {
				p.addInsecure(d, c)
			}
		}
	}
	for _, server := range p.obsolete() {
		if _, is := dockerconf.Covered(d.inFile, server, nil); is {
			d.remove = append(d.remove, server)
		}
	}
	p.writeDaemon(d)
}

func (p *plan) daemon(ctx context.Context, runs bool) (*daemon, error) {
	d := &daemon{path: daemonJSONPath}
	if runs {
		argv, err := p.Host.Units.CommandLine(ctx, dockerUnit)
		if err != nil {
			return nil, err
		}
		if files := host.FlagValues(argv, "--config-file"); len(files) > 0 {
			d.path = files[len(files)-1]
		}
		d.flags = host.FlagValues(argv, "--insecure-registry")
		if d.effective, err = p.Host.Engine.InsecureRegistries(ctx); err != nil {
			p.problem(converge.Wait(api.ReasonEngineNotRunning, "%v", err))
			runs = false
		}
	}
	d.up = runs
	content, err := p.read(d.path)
	if err != nil {
		return nil, err
	}
	if d.inFile, err = dockerconf.Insecure(content); err != nil {
		return nil, invalid(d.path, err)
	}
	return d, nil
}

// addInsecure plans the entry for a server, unless an entry of the file covers it. If the engine
// runs with --insecure-registry flags, it plans none, because the engine would not start with
// both; the operator has to add a flag if none covers the server.
func (p *plan) addInsecure(d *daemon, c *connection) {
	addresses := c.addresses()
	if _, inFile := dockerconf.Covered(d.inFile, c.Server, addresses); inFile {
		return
	}
	_, effective := dockerconf.Covered(d.effective, c.Server, addresses)
	switch {
	case len(d.flags) > 0 && !effective:
		p.problem(converge.Wait(api.ReasonEngineConfigInvalid,
			"%s runs with --insecure-registry (%s); together with insecure-registries in %s it would not start again; add --insecure-registry %s there, or move the flags to the file",
			dockerUnit, strings.Join(d.flags, ", "), d.path, c.Server))
	case len(d.flags) == 0:
		d.add = append(d.add, c.Server)
	}
}

// addresses are the addresses of the server that are known without a name server.
func (c *connection) addresses() []netip.Addr {
	server, err := grammar.RegistryServer(c.Server)
	if err != nil {
		return nil
	}
	if a, ok := c.target.Hosts[strings.ToLower(server.Host)]; ok {
		return []netip.Addr{a}
	}
	if a, err := netip.ParseAddr(server.Host); err == nil {
		return []netip.Addr{a}
	}
	return nil
}

// tokenCAs reports token services that Docker cannot ask. If containerd stores its images, it
// trusted only the system's CAs there, whatever is in its directory for the registry, until
// 29.5.2. All else is in place: containerd pulls.
func (p *plan) tokenCAs(ctx context.Context) {
	private := func(c *connection) bool { return c.answer.TokenCA != "" }
	if !p.docker.runs || !slices.ContainsFunc(p.connections, private) {
		return
	}
	version, err := p.Host.Engine.ContainerdStore(ctx)
	if err != nil {
		p.problem(converge.Wait(api.ReasonEngineNotRunning, "%v", err))
		return
	}
	var major, minor, patch int
	_, _ = fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch) // what is missing is 0
	if version == "" || slices.Compare([]int{major, minor, patch}, []int{29, 5, 2}) >= 0 {
		return
	}
	for _, c := range p.connections {
		if private(c) {
			p.problem(converge.Fail(api.ReasonCertificateRejected,
				"%s; Docker %s, whose images containerd stores, trusts only the system's CAs there, and its pulls fail; update Docker to 29.5.2 or newer, or put the CA into /usr/local/share/ca-certificates, run `update-ca-certificates` and restart docker and nodehitch-agent",
				c.answer.TokenCA, version))
		}
	}
}

// obsolete are our entries that are no longer desired.
func (p *plan) obsolete() []string {
	desired := func(server string) bool {
		return slices.ContainsFunc(p.connections, func(c *connection) bool { return c.Server == server && c.Scheme == api.RegistryHTTP })
	}
	return slices.DeleteFunc(slices.Clone(p.have.Insecure), desired)
}
