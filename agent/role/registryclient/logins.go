package registryclient

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/role/registryclient/dockerconf"
)

// logins plans the logins in Docker's and in kubelet's file: only those that the registries
// accept.
func (p *plan) logins(ctx context.Context) {
	paths := []string{dockerLogins, p.kubeletLogins(ctx)}
	for _, path := range paths {
		for _, c := range p.connections {
			if c.Username != "" {
				p.login(path, c)
			}
		}
	}
	for _, old := range p.have.Logins {
		given := func(c *connection) bool { return c.Server == old.Server && c.Username != "" }
		if !slices.ContainsFunc(p.connections, given) || !slices.Contains(paths, old.Path) {
			p.do("login "+old.Path+" "+old.Server, "remove the login for "+old.Server+" from "+old.Path,
				func(context.Context) error { return p.removeLogin(old) })
		}
	}
}

// kubeletLogins is where kubelet looks for logins: in its --root-dir. While it does not run,
// it is where they were written last.
func (p *plan) kubeletLogins(ctx context.Context) string {
	path := kubeletLogins
	for _, old := range p.have.Logins {
		if old.Path != dockerLogins {
			path = old.Path
		}
	}
	if len(p.connections) == 0 {
		return path
	}
	argv, err := p.Host.Units.CommandLine(ctx, kubeletUnit)
	if err != nil {
		p.problem(err)
	}
	if len(argv) == 0 {
		return path
	}
	if dirs := host.FlagValues(argv, "--root-dir"); len(dirs) > 0 && filepath.IsAbs(dirs[len(dirs)-1]) {
		return filepath.Join(dirs[len(dirs)-1], filepath.Base(kubeletLogins))
	}
	return kubeletLogins
}

func loginEdit(path, server string, login dockerconf.Login) edit {
	return edit{path: path, mode: secretMode, secret: true, empty: "{}\n", change: func(content []byte) ([]byte, error) {
		return dockerconf.SetLogin(content, server, login)
	}}
}

func (p *plan) login(path string, c *connection) {
	e := loginEdit(path, c.Server, dockerconf.Login{Username: c.Username, Password: c.Password})
	pending, err := p.pending(e)
	if err != nil {
		p.problem(err)
		return
	}
	p.noteHelper(path, c.Server)
	if !pending || c.err != nil {
		return
	}
	p.do(c.group(), fmt.Sprintf("write the login for %s to %s", c.Server, path), func(ctx context.Context) error {
		if err := p.accepted(ctx, c); err != nil {
			return err
		}
		return p.apply(e, nil, func(o *owned) { o.Logins = add(o.Logins, ownedPart{path, c.Server}) })
	})
}

// accepted returns why the registry does not accept the login. It asks the registry now if
// that had to wait for the CA.
func (p *plan) accepted(ctx context.Context, c *connection) error {
	if !c.probed {
		if ref := c.ca(); ref != nil {
			ca, err := p.fetch(ctx, c.Server, *ref)
			if err != nil {
				return err
			}
			c.target.CA = ca
		}
		p.probeOne(ctx, c)
	}
	return c.err
}

// noteHelper warns if Docker's command line asks a credential helper instead of the login
// that is written. Kubelet uses no helpers.
func (p *plan) noteHelper(path, server string) {
	if path != dockerLogins {
		return
	}
	content, err := p.read(path)
	if err != nil {
		return // login reports it
	}
	if helper, err := dockerconf.Helper(content, server); err == nil && helper != "" {
		p.notes = append(p.notes, fmt.Sprintf("docker's command line asks the credential helper %q for %s (%s), and does not use the login that is written there", helper, server, path))
	}
}

func (p *plan) removeLogin(old ownedPart) error {
	e := loginEdit(old.Path, old.Server, dockerconf.Login{})
	e.change = func(content []byte) ([]byte, error) { return dockerconf.RemoveLogin(content, old.Server) }
	pending, err := p.pending(e)
	if err == nil && pending {
		err = p.apply(e, nil, nil)
	}
	if err != nil {
		return err
	}
	return p.own(func(o *owned) { o.Logins = without(o.Logins, old) })
}
