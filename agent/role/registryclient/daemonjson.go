package registryclient

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/role/registryclient/dockerconf"
	"github.com/nodehitch/nodehitch/shared/api"
)

// writeDaemon plans the file, a reload if the engine does not use what the file will say,
// and then the cleanup that has to come after the reload.
func (p *plan) writeDaemon(d *daemon) {
	const group = "docker"
	if len(d.add)+len(d.remove) > 0 {
		p.do(group, "write insecure-registries of "+d.path+d.summary(), func(ctx context.Context) error { return p.applyDaemon(ctx, d) })
	}
	if d.up && p.unloaded(d) {
		p.do(group, "reload "+dockerUnit, func(ctx context.Context) error { return p.reloadDocker(ctx, d) })
	}
	if obsolete := p.obsolete(); len(obsolete) > 0 {
		p.do(group, "forget "+strings.Join(obsolete, ", ")+" in "+d.path, func(context.Context) error { return p.forgetInsecure(d, obsolete) })
	}
}

func (d *daemon) summary() string {
	text := ""
	if len(d.add) > 0 {
		text += ", with " + strings.Join(d.add, ", ")
	}
	if len(d.remove) > 0 {
		text += ", without " + strings.Join(d.remove, ", ")
	}
	return text
}

// unloaded reports whether the engine does not use yet what the file says or will say.
func (p *plan) unloaded(d *daemon) bool {
	for _, server := range p.obsolete() {
		if slices.Contains(d.effective, server) && len(d.flags) == 0 {
			return true
		}
	}
	for _, c := range p.connections {
		if c.Scheme != api.RegistryHTTP {
			continue
		}
		_, inFile := dockerconf.Covered(slices.Concat(d.inFile, d.add), c.Server, c.addresses())
		if _, effective := dockerconf.Covered(d.effective, c.Server, c.addresses()); inFile && !effective {
			return true
		}
	}
	return false
}

func (d *daemon) edit() edit {
	return edit{path: d.path, mode: publicMode, empty: "{}\n", change: func(content []byte) ([]byte, error) {
		content, err := dockerconf.RemoveInsecure(content, d.remove...)
		if err != nil {
			return nil, err
		}
		return dockerconf.AddInsecure(content, d.add...)
	}}
}

func (p *plan) applyDaemon(ctx context.Context, d *daemon) error {
	check := func(content []byte) error {
		err := p.Host.Programs.ValidateDocker(ctx, content)
		if refusal := host.Refusal(err); refusal != nil {
			return converge.Wait(api.ReasonEngineConfigInvalid, "%s is not changed, because dockerd would refuse it: %v", d.path, refusal)
		}
		return err
	}
	return p.apply(d.edit(), check, func(o *owned) {
		for _, server := range d.add {
			o.Insecure = add(o.Insecure, server)
		}
	})
}

// forgetInsecure finishes the removal of entries. The key of an empty list is removed only
// after the reload: a reload without the key would change nothing.
func (p *plan) forgetInsecure(d *daemon, obsolete []string) error {
	e := d.edit()
	e.change = dockerconf.DropInsecure
	if pending, err := p.pending(e); err != nil || pending {
		if err == nil {
			err = p.apply(e, nil, nil)
		}
		if err != nil {
			return err
		}
	}
	return p.own(func(o *owned) { o.Insecure = without(o.Insecure, obsolete...) })
}

// reloadDocker reloads the daemon and waits until it uses the new list.
func (p *plan) reloadDocker(ctx context.Context, d *daemon) error {
	if err := p.Host.Units.ReloadUnit(ctx, dockerUnit); err != nil {
		return converge.Wait(api.ReasonEngineNotRunning, "%v", err)
	}
	return p.until(ctx, func() (bool, error) {
		var err error
		d.effective, err = p.Host.Engine.InsecureRegistries(ctx)
		if err != nil {
			return false, converge.Wait(api.ReasonEngineNotRunning, "%v", err)
		}
		if p.unloaded(d) {
			return false, converge.Wait(api.ReasonEngineConfigInvalid,
				"%s was reloaded and does not use insecure-registries of %s; see `journalctl -u %s`", dockerUnit, d.path, dockerUnit)
		}
		return true, nil
	})
}

// until polls until the answer is yes or ReloadLimit is over; then it returns the last error.
func (p *plan) until(ctx context.Context, ask func() (bool, error)) error {
	deadline := time.After(p.ReloadLimit)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := ask()
		if done {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
