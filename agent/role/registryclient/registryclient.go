// Package registryclient connects a master or worker to its private registries. It
// writes the configuration files of Docker, containerd and kubelet, whichever the machine
// has, and checks each registry.
//
// The files belong to the operator: the agent removes only what the inventory says that
// it has added. paths.go lists the files; dockerconf, containerdconf and hostsfile edit
// their texts; probe checks registries.
package registryclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/inventory"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Store has the files that the configuration names; files.Store is one.
type Store interface {
	// Fetch downloads and verifies the file.
	Fetch(ctx context.Context, ref api.FileReference) error
	// Open opens the file; fs.ErrNotExist if it does not exist.
	Open(ref api.FileReference) (*os.File, error)
}

// Options are what the step needs. Host, Files and StateDirectory are required.
type Options struct {
	Host  *host.Host
	Files Store
	// StateDirectory is where inventory.json is.
	StateDirectory string
	// ProbeLimit is how long one registry may take to answer; 0 = 10 seconds.
	ProbeLimit time.Duration
	// ReloadLimit is how long Docker may take to use a new list; 0 = 30 seconds.
	ReloadLimit time.Duration
	// Now is the clock by which a refused login is not sent again at once.
	Now func() time.Time
	Log *slog.Logger
}

// step owns RegistriesConnected.
type step struct {
	Options
	inventory inventory.File
	refusals  refusals
}

// New is the step that owns RegistriesConnected.
func New(o Options) converge.Step {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.ReloadLimit == 0 {
		o.ReloadLimit = 30 * time.Second
	}
	return &step{Options: o, inventory: inventory.File{Files: o.Host.Files, Path: filepath.Join(o.StateDirectory, "inventory.json")}}
}

func (s *step) Condition() string { return api.ConditionRegistriesConnected }

func (s *step) Plan(ctx context.Context, desired *api.NodeConfig) (converge.Plan, error) {
	if desired.Registries == nil {
		return converge.Plan{HandsOff: true}, nil
	}
	have, err := s.owned()
	if err != nil {
		return converge.Plan{}, err
	}
	p := &plan{step: s, have: have, connections: connectionsOf(desired), keep: map[string]bool{}}
	p.readDocker(ctx)
	p.readCRI(ctx)
	p.trusts()
	s.probe(ctx, p.connections)
	if err := ctx.Err(); err != nil {
		return converge.Plan{}, err
	}
	p.hosts()
	p.certificates()
	p.insecure(ctx)
	p.containerd(ctx)
	p.engines()
	p.tokenCAs(ctx)
	p.logins(ctx)
	p.removeFiles()
	return p.outcome()
}

// plan is a plan that is being made.
type plan struct {
	*step
	have        owned
	connections []*connection
	actions     []converge.Action
	problems    []error
	// notes are warnings.
	notes []string
	// keep are our files that are still needed. If uncertain is set, containerd's
	// configuration is unknown, and the files that it may need are kept too.
	keep      map[string]bool
	uncertain bool
	// engine says that the machine has a container engine.
	engine bool
	// docker says whether Docker is in use here, and whether it runs.
	docker struct{ has, runs bool }
	// cri is containerd, nil if Kubernetes does not use it here.
	cri *cri
}

func (p *plan) do(group, summary string, f func(context.Context) error) {
	p.actions = append(p.actions, converge.Action{Summary: summary, Group: group, Do: f})
}

func (p *plan) problem(err error) { p.problems = append(p.problems, err) }

// engines reports a machine without a container engine that reads what the agent writes. All
// other files are written anyway, so that an engine that is installed later finds them.
func (p *plan) engines() {
	if len(p.connections) > 0 && !p.otherEngine() && !p.engine {
		p.problem(converge.Wait(api.ReasonEngineNotRunning,
			"this machine has no container engine: neither docker.service nor containerd.service with its CRI plugin is enabled or runs; install one"))
	}
}

// outcome reports every problem of every registry, the most severe first.
func (p *plan) outcome() (converge.Plan, error) {
	asking := 0
	for _, c := range p.connections {
		if c.err != nil {
			p.problem(c.err)
		}
		p.notes = append(p.notes, c.answer.Notes...)
		if c.answer.AsksLogin {
			asking++
		}
		if c.answer.Untried {
			p.notes = append(p.notes, c.Server+" answers without a login, so the login given for it is written without having been tried")
		}
	}
	if asking > 0 {
		p.notes = append(p.notes, fmt.Sprintf("%d of them ask for a login, and none is given", asking))
	}
	out := converge.Plan{Actions: p.actions, Reason: api.ReasonConnected, Message: plural(len(p.connections), "registry", "registries") + " connected"}
	if len(p.connections) == 0 {
		out.Reason, out.Message = api.ReasonRemoved, "no registries are desired, and nothing of the agent's is left"
	}
	out.Message = strings.Join(append([]string{out.Message}, p.notes...), "; ")
	return out, errors.Join(bySeverity(p.problems)...)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
