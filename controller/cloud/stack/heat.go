package stack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// Heat is the Source that observes the stack. What comes with a request says which
// servers there are, and its values win; what it leaves out is filled in. A request
// without a topology gets all of the stack.
//
// Reading it costs at most six calls, however large the stack is: two of Heat (the stack,
// and its resources with those of nested stacks), one of Nova if the stack has
// servers, two of Neutron if it has ports or floating IPs (one for each list), one of
// Cinder if it has volumes. Nova, Neutron and Cinder are asked for all that the project
// has, which is one call more for each further page, of a thousand by default, and Nova
// once more for each server of the stack that its list lacks.
// The first one with a credential also logs in. It asks nothing unless called.
type Heat struct {
	Clouds *openstack.Clouds
}

// readTimeout is how long that may take with all its calls.
const readTimeout = 2 * time.Minute

// Resolve observes the stack that the request names. If the request names none, or its
// instance has no cloud, it does what Inline does. Problems: stack-gone if there is no such
// stack; cloud if the cloud does not give what is asked for. A stack that is in progress or
// has failed is no problem: its status and reason are in the topology.
func (h Heat) Resolve(ctx context.Context, r Request) (*api.Topology, error) {
	cloud, err := h.Clouds.For(ctx, r.VIM)
	if errors.Is(err, openstack.ErrNoCloud) {
		return Inline{}.Resolve(ctx, r)
	}
	if err != nil {
		return nil, problemOf(err)
	}
	wanted := r.StackID
	if r.Inline != nil && r.Inline.StackID != "" {
		wanted = r.Inline.StackID
	}
	if wanted == "" {
		return Inline{}.Resolve(ctx, r)
	}
	found, err := readWithin(ctx, cloud, wanted)
	switch {
	case errors.Is(err, errNoStack):
		return nil, gone(wanted, cloud.Name())
	case err != nil:
		return nil, problemOf(err)
	}
	t := topology.Normalize(found.filled(r.Inline))
	if faults := topology.Validate(t, fault.Root.Key("topology")); len(faults) > 0 {
		problem := api.NewProblem(api.ProblemCloudError, fmt.Sprintf("%s has a resource of stack %q that cannot be used", cloud.Name(), wanted))
		problem.InvalidParams = faults
		return nil, problem
	}
	return t, nil
}

func readWithin(ctx context.Context, cloud *openstack.Cloud, wanted string) (*contents, error) {
	within, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	state, err := read(within, cloud, wanted)
	if within.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("%s did not answer all calls within %s; ask again later", cloud.Name(), readTimeout)
	}
	return state, err
}

func gone(stack, cloud string) error {
	return api.NewProblem(api.ProblemStackGone, fmt.Sprintf(
		"%s has no stack %q in the project of the credential; give the stackId of the instance's present stack, or the credential of that stack's project",
		cloud, stack))
}

// problemOf is an error of a cloud as the client should see it. Errors of package
// openstack contain nothing secret.
func problemOf(err error) error {
	var problem *api.Problem
	var cloud *openstack.Error
	switch {
	case errors.As(err, &problem), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &cloud) && openstack.IsUnavailable(err):
		return api.NewProblem(api.ProblemCloudError, cloud.Error()+"; ask again later")
	}
	return api.NewProblem(api.ProblemCloudError, err.Error())
}
