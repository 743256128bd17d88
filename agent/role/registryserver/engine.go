package registryserver

import (
	"context"
	"errors"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/software"
	"github.com/nodehitch/nodehitch/shared/api"
)

// dockerService is the unit of every engine that is installed as a package: docker.io,
// moby-engine, docker-ce.
const dockerService = "docker.service"

// engine plans that a container engine runs, and reports whether one does. It uses any engine
// that exists already, and installs a package only if there is none.
func (p *plan) engine(ctx context.Context) (up bool, err error) {
	_, down := p.Host.Engine.Version(ctx)
	unit, err := p.Host.Units.Unit(ctx, dockerService)
	switch {
	case err != nil && down == nil:
		return true, nil // it answers; what started it does not matter
	case err != nil:
		return false, err
	case down == nil && unit.Loaded == "loaded" && unit.Active == "active" && unit.File == "disabled":
		p.do("enable "+dockerService, p.startEngine)
		return true, nil
	case down == nil:
		return true, nil
	case unit.Loaded == "masked":
		return false, converge.Wait(api.ReasonEngineNotRunning, "%s is masked, so the engine cannot be started: `systemctl unmask docker`", dockerService)
	case unit.Loaded == "loaded" && unit.Active == "active":
		return false, converge.Wait(api.ReasonEngineNotRunning, "%s is active, but %v: see `journalctl -u docker`", dockerService, down)
	case unit.Loaded != "loaded":
		p.do("install "+p.Host.Packages.Name(host.ContainerEngine), p.install)
	}
	p.do("enable and start "+dockerService, p.startEngine)
	return false, nil
}

// install installs the distribution's engine. Some distributions have none.
func (p *plan) install(ctx context.Context) error {
	err := p.Host.Packages.Install(ctx, p.proxy, host.ContainerEngine)
	var unavailable *host.UnavailableError
	if errors.As(err, &unavailable) {
		return converge.Wait(api.ReasonPackageUnavailable, "%v; if there is no such package, install a container engine from another source (docker-ce): the agent uses it", err)
	}
	return software.Problem(err)
}

func (p *plan) startEngine(ctx context.Context) error {
	unit, err := p.Host.Units.Unit(ctx, dockerService)
	if err != nil {
		return err
	}
	if unit.File != "enabled" {
		if err := errors.Join(p.Host.Units.Enable(ctx, dockerService), p.Host.Units.Reload(ctx)); err != nil {
			return converge.Wait(api.ReasonEngineNotRunning, "%v", err)
		}
	}
	if unit.Active != "active" {
		if err := p.Host.Units.Start(ctx, dockerService); err != nil {
			return converge.Wait(api.ReasonEngineNotRunning, "%v", err)
		}
	}
	_, err = p.Host.Engine.Version(ctx)
	return engineProblem(err)
}

// engineProblem turns an engine's error, or its silence, into a condition's reason.
func engineProblem(err error) error {
	var down *host.EngineDownError
	var refusal *host.EngineError
	switch {
	case errors.As(err, &down):
		return converge.Wait(api.ReasonEngineNotRunning, "%v", err)
	case errors.As(err, &refusal) && noSpace(refusal):
		return converge.Wait(api.ReasonNoSpace, "%v; make room where the engine keeps its images (`docker info` says where, by default /var/lib/docker)", err)
	case errors.As(err, &refusal):
		return converge.Wait(api.ReasonEngineNotRunning, "the engine failed: %v", err)
	}
	return err
}

// noSpace matches the kernel's message: the engine's answer does not have the error number.
func noSpace(e *host.EngineError) bool {
	return strings.Contains(e.Message, "no space left on device") || strings.Contains(e.Message, "disk quota exceeded")
}
