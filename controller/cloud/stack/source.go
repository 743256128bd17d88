// Package stack observes a VNF's stack: which servers, connection points and volumes
// Heat, Nova, Neutron and Cinder have for it. A Source finds them out; package topology
// says what they mean, the same for every Source.
package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
)

// ErrNotGiven says that the source knows no topology for a request. The one in
// force, if there is any, stays.
var ErrNotGiven = errors.New("no topology is given")

// errUnobserved is ErrNotGiven for a stack that is named and cannot be observed.
var errUnobserved = fmt.Errorf("%w, and the stack is not observed, because no cloud is configured", ErrNotGiven)

// Request is what a Source may need to find a topology.
type Request struct {
	InstanceID string
	// StackID is the Heat stack's id or name, empty while it is not known.
	StackID string
	// Inline is the topology that came with the request, nil when none did. It has
	// passed topology.Validate.
	Inline *api.Topology
	// VIM is the instance's vimConnectionInfo as JSON, nil when none was given. It
	// contains credentials.
	VIM json.RawMessage
}

// Source finds the topology of a stack. It is called outside of any transaction,
// so it may take its time within ctx.
type Source interface {
	// Resolve returns a topology in the form that topology.Normalize gives. ErrNotGiven
	// means that there is none to be had; an error that a client should see is an
	// *api.Problem.
	Resolve(ctx context.Context, r Request) (*api.Topology, error)
	// Remains is which of these servers exist, and which servers have these volumes.
	// ErrNotGiven means that no cloud can be asked; an error that a client should see is an
	// *api.Problem.
	Remains(ctx context.Context, r Request, serverIDs, volumeIDs []string) (Remains, error)
}

// Inline is the Source for topologies in the request, typed or sent by a hook.
type Inline struct{}

// Remains is unknown without a cloud.
func (Inline) Remains(context.Context, Request, []string, []string) (Remains, error) {
	return Remains{}, errUnobserved
}

// Resolve returns what came with the request.
func (Inline) Resolve(_ context.Context, r Request) (*api.Topology, error) {
	switch {
	case r.Inline == nil && r.StackID != "":
		return nil, errUnobserved
	case r.Inline == nil:
		return nil, ErrNotGiven
	}
	t := topology.Normalize(r.Inline)
	if t.StackID == "" {
		t.StackID = r.StackID
	}
	return t, nil
}
