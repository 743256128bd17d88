package registryserver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// whenFree is the move if the registry's port is free for it. If our own running container has
// the port, it is free: that container will be removed. It fails while another program or
// container uses the port.
func (p *plan) whenFree(ctx context.Context, m *move, current *host.Container) (*move, error) {
	port := p.section.Port
	if publishes(current, port) {
		return m, nil
	}
	listeners, err := p.Host.Ports.Listeners(port)
	if err != nil || len(listeners) == 0 {
		return m, err
	}
	containers, err := p.Host.Engine.Containers(ctx)
	if err != nil {
		return nil, engineProblem(err)
	}
	var users []string
	for _, l := range listeners {
		if !p.isEngines(ctx, l) {
			users = append(users, l.String())
		}
	}
	for _, c := range containers {
		if publishes(&c, port) {
			users = append(users, "the container "+c.Name)
		}
	}
	if len(users) > 0 {
		return nil, converge.Wait(api.ReasonPortInUse, "port %d is used by %s, which the agent does not touch: stop it, or choose another port_no", port, strings.Join(users, " and "))
	}
	return p.release(containers)
}

// isEngines reports whether docker.service has the process for a port of a container.
func (p *plan) isEngines(ctx context.Context, l host.Listener) bool {
	if l.Program != "docker-proxy" {
		return false
	}
	unit, err := p.Host.Units.OfProcess(ctx, l.PID)
	return err == nil && unit == dockerService // without systemd, something else runs the engine
}

// publishes reports whether a container runs and has a port of this machine; false for nil.
func publishes(c *host.Container, port int) bool {
	return c != nil && runs(c) && slices.Contains(c.Ports, port)
}

// runs reports whether the engine runs a container, or soon runs it again.
func runs(c *host.Container) bool { return c.PID != 0 || c.Status == "restarting" }

// release is the restart of the engine that listens on the port for no running container. Docker
// does that after a power cut in the start of a container: when it starts again, it restores the
// port, and no longer knows whose it was. Removing the container does not free the port.
func (p *plan) release(containers []host.Container) (*move, error) {
	port := p.section.Port
	others := runningOthers(containers)
	switch {
	case len(others) > 0:
		return nil, converge.Wait(api.ReasonPortInUse, "port %d is used by %s for no container, until it is restarted; the agent does not restart it, because it runs %s: `systemctl restart docker`, or choose another port_no",
			port, dockerService, strings.Join(others, ", "))
	case p.restarted:
		return nil, converge.Wait(api.ReasonPortInUse, "port %d is used by %s for no container, also after a restart: see `journalctl -u docker`, or choose another port_no", port, dockerService)
	}
	return &move{fmt.Sprintf("restart %s, which uses port %d for no container", dockerService, port), func(ctx context.Context) error {
		p.restarted = true
		return p.restartEngine(ctx)
	}}, nil
}

// restartEngine is only for an engine that runs no container but ours.
func (p *plan) restartEngine(ctx context.Context) error {
	if err := p.Host.Units.Restart(ctx, dockerService); err != nil {
		return converge.Wait(api.ReasonEngineNotRunning, "%v", err)
	}
	return nil
}
