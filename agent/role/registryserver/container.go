package registryserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The container, as in the spec. Its successor is created next to it: the running one is
// removed only after the engine has accepted the successor.
const (
	containerName = "private_registry"
	successorName = "private_registry_next"
	portInside    = 5000
	dataInside    = "/var/lib/registry"
	always        = "always"
)

// The labels that mark a container as ours. A container's labels, image, port and directory
// never change after it is made, so that the labels can describe the others.
const (
	labelManaged = "io.nodehitch.managed"
	labelSpec    = "io.nodehitch.spec"
	labelSource  = "io.nodehitch.source"
	managed      = "registry"
)

// ours reports whether the agent made the container; false for nil.
func ours(c *host.Container) bool { return c != nil && c.Labels[labelManaged] == managed }

// specDigest identifies what the container is made from. Version changes when a newer agent
// makes the container differently.
func (p *plan) specDigest(i *image) string {
	b, err := json.Marshal(struct {
		Version         int
		Image           string
		Port            int
		Directory, Name string
	}{1, i.ID, p.section.Port, p.section.DataDirectory, containerName})
	if err != nil {
		panic("registryserver: strings and numbers always have a JSON form: " + err.Error())
	}
	return digest(string(b))
}

// move is one change on the way to the desired container.
type move struct {
	summary string
	do      func(context.Context) error
}

func (p *plan) move(do func(context.Context, string) error, name, verb string) *move {
	return &move{verb + " the container " + name, func(ctx context.Context) error { return do(ctx, name) }}
}

// next is the next move, nil if the container exists and runs as desired. It inspects the
// machine each time, so that it is right after a crash at any point.
func (p *plan) next(ctx context.Context, i *image, at place) (*move, error) {
	if partial, err := p.partial(ctx); partial != nil || err != nil {
		return partial, err
	}
	current, err := p.lookup(ctx, containerName)
	if err != nil {
		return nil, err
	}
	successor, err := p.lookup(ctx, successorName)
	if err != nil {
		return nil, err
	}
	fits := func(c *host.Container) bool { return c != nil && c.Labels[labelSpec] == p.specDigest(i) }
	e := p.Host.Engine
	switch {
	case successor != nil && (fits(current) || !fits(successor)):
		return p.move(e.Remove, successorName, "remove"), nil
	case current == nil && successor != nil:
		return &move{"rename the new container to " + containerName, func(ctx context.Context) error { return e.Rename(ctx, successorName, containerName) }}, nil
	case current == nil:
		return p.whenFree(ctx, p.making(i, containerName), nil)
	case fits(current):
		return p.running(ctx, current, at)
	case successor == nil:
		return p.whenFree(ctx, p.making(i, successorName), current)
	case current.PID != 0 && current.Status != "paused":
		return p.move(e.Stop, containerName, "stop"), nil
	}
	return p.move(e.Remove, containerName, "remove"), nil
}

// partial is the removal of a container that was being made when the agent or the machine
// ended: its files may be damaged (host.Engine, Sync).
func (p *plan) partial(ctx context.Context) (*move, error) {
	have, err := p.owned()
	if err != nil || have.Making == "" {
		return nil, err
	}
	c, err := p.lookup(ctx, have.Making)
	if c == nil || err != nil {
		return nil, err
	}
	return p.move(p.Host.Engine.Remove, have.Making, "remove"), nil
}

// lookup returns a container of ours, nil for none. Containers of others are not changed.
func (p *plan) lookup(ctx context.Context, name string) (*host.Container, error) {
	c, err := p.Host.Engine.Container(ctx, name)
	if err != nil {
		return nil, engineProblem(err)
	}
	if c != nil && !ours(c) {
		return nil, converge.Fail(api.ReasonNameTaken,
			"a container %s exists that the agent did not make (id %.12s, %s); the agent does not touch it: rename or remove it (`docker rename %s …`)", name, c.ID, c.Status, name)
	}
	return c, nil
}

// running is the next move for a container that matches the spec.
func (p *plan) running(ctx context.Context, c *host.Container, at place) (*move, error) {
	e := p.Host.Engine
	switch c.Status {
	case "dead", "removing":
		return p.move(e.Remove, containerName, "remove"), nil
	case "paused":
		return p.move(e.Unpause, containerName, "unpause"), nil
	}
	if c.Restart != always {
		return &move{"set the restart policy of the container " + containerName, func(ctx context.Context) error {
			return e.SetRestart(ctx, containerName, always)
		}}, nil
	}
	switch {
	case c.Status == "running" && !p.sees(c, at):
		return &move{"restart the container " + containerName + ", which does not see its data directory", func(ctx context.Context) error {
			return e.Stop(ctx, containerName)
		}}, nil
	case c.Status == "running", c.Status == "restarting":
		return nil, nil // answers checks whether it answers
	}
	return p.whenFree(ctx, p.move(e.Start, containerName, "start"), c)
}

// making makes the container from the image. It uses the image's name if that still leads to
// the image, because people read it.
func (p *plan) making(i *image, name string) *move {
	spec := host.ContainerSpec{
		Name: name, Image: i.ID, Restart: always,
		Labels: map[string]string{labelManaged: managed, labelSpec: p.specDigest(i), labelSource: i.Source},
		Port:   p.section.Port, Inside: portInside, Source: p.section.DataDirectory, Target: dataInside,
	}
	return &move{fmt.Sprintf("make the container %s from %s on port %d", containerName, i.Name, p.section.Port), func(ctx context.Context) error {
		if id, err := p.Host.Engine.Image(ctx, i.Name); err == nil && id == i.ID {
			spec.Image = i.Name
		}
		if err := p.own(func(o *owned) { o.Making = name }); err != nil {
			return err
		}
		if err := p.Host.Engine.Create(ctx, spec); err != nil {
			return err
		}
		return p.ownOnDisk(ctx, func(o *owned) { o.Making = "" })
	}}
}

// refused turns the engine's error into the reason of a condition.
func (p *plan) refused(err error) error {
	var refusal *host.EngineError
	switch {
	case !errors.As(err, &refusal) || noSpace(refusal):
		return engineProblem(err)
	case strings.Contains(refusal.Message, "port is already allocated"), strings.Contains(refusal.Message, "address already in use"):
		return converge.Wait(api.ReasonPortInUse, "port %d is taken: %v; stop what listens there, or choose another port_no", p.section.Port, err)
	}
	return converge.Wait(api.ReasonNotAnswering, "the container %s does not run: %v", containerName, err)
}
