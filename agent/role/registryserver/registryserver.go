// Package registryserver makes a VM a private registry: a container private_registry that
// serves the Distribution API on a port of the machine.
//
// The container is the one that the spec's command makes, docker run -d -p <port>:5000
// -v <directory>:/var/lib/registry --restart=always. It is desired state: a container that
// differs is replaced. The data is not in the container, and stays.
package registryserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/inventory"
	"github.com/nodehitch/nodehitch/agent/machine/software"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Files are the files that the configuration names; files.Store has them.
type Files interface {
	// Fetch downloads and verifies the file.
	Fetch(ctx context.Context, ref api.FileReference) error
	// Open opens the file; fs.ErrNotExist if it does not exist.
	Open(ref api.FileReference) (*os.File, error)
	// Remove removes the file and any partial download. It is no error if there is none.
	Remove(ref api.FileReference) error
}

// Options are what the step needs. All but Log are required.
type Options struct {
	Host  *host.Host
	Files Files
	// StateDirectory is where inventory.json is.
	StateDirectory string
	Log            *slog.Logger
}

// step owns RegistryRunning.
type step struct {
	Options
	inventory inventory.File
}

// NewStep is the step of the registry role, RegistryRunning.
func NewStep(o Options) converge.Step {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &step{Options: o, inventory: inventory.File{Files: o.Host.Files, Path: filepath.Join(o.StateDirectory, "inventory.json")}}
}

func (s *step) Condition() string { return api.ConditionRegistryRunning }

// Plan compares the machine with the section. The section cannot be empty, and no document
// asks a machine to stop being a registry: without a section the agent changes nothing, and
// the registry keeps running.
func (s *step) Plan(ctx context.Context, desired *api.NodeConfig) (converge.Plan, error) {
	if desired.Registry == nil {
		return converge.Plan{HandsOff: true}, nil
	}
	p := &plan{step: s, section: desired.Registry, desired: desired, proxy: software.ProxyOf(desired)}
	err := p.plan(ctx)
	return converge.Plan{
		Actions: p.actions, Reason: api.ReasonRunning,
		Message: fmt.Sprintf("%s answers on port %d, its data is in %s", containerName, p.section.Port, p.section.DataDirectory),
	}, err
}

// group is the group of all actions: each needs those before it.
const group = "registry"

// plan is a plan that is being made.
type plan struct {
	*step
	section *api.RegistrySection
	desired *api.NodeConfig
	proxy   host.Proxy
	actions []converge.Action
	// restarted says that the engine was restarted to free the port.
	restarted bool
}

func (p *plan) do(summary string, f func(context.Context) error) {
	p.actions = append(p.actions, converge.Action{Summary: summary, Group: group, Do: f})
}

// plan plans as far as the state of the machine allows: run decides the rest after the actions
// before it.
func (p *plan) plan(ctx context.Context) error {
	have, err := p.owned()
	if err != nil {
		return err
	}
	up, err := p.engine(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(p.keepProxy(&have), p.order(&have)); err != nil {
		return err
	}
	place, err := p.place()
	if err != nil {
		return p.withoutData(ctx, up, err)
	}
	found, err := p.image(ctx, up, &have)
	if err != nil {
		return err
	}
	p.directory(place)
	if !up || found == nil || !place.exists {
		p.do("run the container "+containerName, p.run)
		return nil
	}
	next, err := p.next(ctx, found, place)
	switch {
	case err != nil:
		return err
	case next != nil:
		p.do(next.summary, p.run)
		return nil
	}
	return p.answers(ctx)
}
