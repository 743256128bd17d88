package registryclient

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/role/registryclient/dockerconf"
	"github.com/nodehitch/nodehitch/shared/api"
)

// writeDaemon plans the file, the reload where the engine has not what the file will
// say, and then what can only go after the reload.
func (p *plan) writeDaemon(d *daemon) {
	const group = "docker"
	if len(d.add)+len(d.remove) > 0 {
		p.do(group, "write insecure-registries of "+d.path+d.summary(), func(ctx context.Context) error { return p.applyDaemon(ctx, d) })
	}
	if d.up && p.unloaded(d) {
		p.do(group, "reload "+dockerUnit, func(ctx context.Context) error { return p.reloadDocker(ctx, d) })
	}
	if gone := p.gone(); len(gone) > 0 {
		p.do(group, "forget "+strings.Join(gone, ", ")+" in "+d.path, func(context.Context) error { return p.forgetInsecure(d, gone) })
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

// unloaded says that the engine has not taken over what the file says, or will say.
func (p *plan) unloaded(d *daemon) bool {
	for _, server := range p.gone() {
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
		if err := p.Host.Programs.ValidateDocker(ctx, content); err != nil {
			return converge.Wait(api.ReasonEngineConfigInvalid, "%s is left as it is, for dockerd would not take it: %v", d.path, err)
		}
		return nil
	}
	return p.apply(d.edit(), check, func(o *owned) {
		for _, server := range d.add {
			o.Insecure = add(o.Insecure, server)
		}
	})
}

// forgetInsecure ends what began with the removal of entries: the key of an empty
// list goes only after the reload, which overlooks a list that is not there.
func (p *plan) forgetInsecure(d *daemon, gone []string) error {
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
	return p.own(func(o *owned) { o.Insecure = without(o.Insecure, gone...) })
}

// reloadDocker reloads the daemon and waits until it has done as it was told.
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
				"%s was reloaded and has not taken over insecure-registries of %s; see `journalctl -u %s`", dockerUnit, d.path, dockerUnit)
		}
		return true, nil
	})
}

// until asks again until the answer is yes, or for ReloadLimit; then the last error counts.
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
