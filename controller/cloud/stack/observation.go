package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Observation is what a source was asked, outside of any transaction, and what it said.
type Observation struct {
	Request
	// ByName: if the stack is gone, another one with its name takes its place.
	ByName bool
	// Succeeds: the stack is gone, and the one of its name is another.
	Succeeds bool
	// Found is the topology, nil if there is none to be had.
	Found *api.Topology
	// Gone is that there is no such stack, Away that the cloud did not say.
	Gone, Away *api.Problem
	// Unobserved is that no cloud is configured in which the named stack could be.
	Unobserved bool
	// Remains is what the cloud shows of the storage server that a HEAL replaces, nil if it was
	// not asked or none is configured; RemainsAway that it did not say.
	Remains     *Remains
	RemainsAway *api.Problem

	// name is what the stack was found by before, "" if the request names one itself.
	name string
	// version of the desired state was in force when it was asked; 0 is no instance.
	version int64
	// number orders the observations of one stack by when they began.
	number int64
}

// How long an observation may take: for callers that need it, and for callers that do not.
const (
	Within  = 2 * time.Minute
	Briefly = 30 * time.Second
)

// Complete adds what the request leaves out and the instance knows of its cloud.
func (o *Observation) Complete(t *tx.Tx, d store.Desired) (err error) {
	o.version = t.Instance.DesiredVersion
	if o.StackID = cmp.Or(o.StackID, IDOf(o.Inline)); o.StackID == "" {
		o.StackID, o.name = d.StackID, d.StackName
	}
	if o.VIM == nil {
		o.VIM, err = t.Store.Unseal(d.VIMConnectionInfo)
	}
	return err
}

// AsKnown is Complete for a request that leaves the stack as it is known.
func (o *Observation) AsKnown(t *tx.Tx) { o.version = t.Instance.DesiredVersion }

// Observe asks the source. A stack that does not exist, and a cloud that does not
// answer, are no errors here: what they mean depends on the caller.
func (s *Observer) Observe(ctx context.Context, o *Observation, within time.Duration) error {
	return s.ask(ctx, s.Source, o, within)
}

// TakeGiven takes what the request itself gives, and asks no cloud.
func (s *Observer) TakeGiven(ctx context.Context, o *Observation) error {
	if o.Inline == nil {
		o.number = s.begin()
		return nil
	}
	return s.ask(ctx, Inline{}, o, Briefly)
}

func (s *Observer) ask(ctx context.Context, source Source, o *Observation, within time.Duration) error {
	o.number = s.begin()
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var err error
	if o.Found, err = source.Resolve(limited, o.Request); isGone(err) && o.name != "" && o.ByName {
		err = o.successor(limited, source, err)
	}
	var problem *api.Problem
	switch {
	case err == nil:
	case limited.Err() != nil && ctx.Err() == nil:
		o.Found, o.Away = nil, api.NewProblem(api.ProblemCloudError, fmt.Sprintf("the cloud has not answered within %s", within))
	case errors.Is(err, errUnobserved):
		o.Unobserved = true
	case errors.Is(err, ErrNotGiven):
		return nil
	case isGone(err):
		errors.As(err, &o.Gone)
		// What a request says of servers itself stands without the stack.
		if o.Found, err = (Inline{}).Resolve(ctx, o.Request); err != nil {
			o.Found = nil
		}
	case errors.As(err, &problem) && problem.Type == api.ProblemCloudError:
		o.Found, o.Away = nil, problem
	default:
		return fmt.Errorf("observing the stack of VNF instance %s: %w", o.InstanceID, err)
	}
	if s.saw(o, s.Now().UTC()) {
		s.Hub.Changed(o.InstanceID, notify.Instances)
	}
	return nil
}

func isGone(err error) bool {
	var problem *api.Problem
	return errors.As(err, &problem) && problem.Type == api.ProblemStackGone
}

// successor finds the stack that took the place of the one that is gone: healing an
// entire VNF makes one with the same name. gone is the error if there is none.
func (o *Observation) successor(ctx context.Context, source Source, gone error) error {
	byName := o.Request
	byName.StackID = o.name
	found, err := source.Resolve(ctx, byName)
	switch {
	case isGone(err):
		return gone
	case err == nil && found.StackID == o.StackID:
		o.Found = found // it is there after all
	case err == nil:
		o.Request, o.Found, o.Succeeds = byName, found, true
	}
	return err
}

// Topology is what there is to put in force, nil if the one in force stays. What
// is being deleted is not put in force, unless the request says itself what it has.
func (o *Observation) Topology() *api.Topology {
	if o.Inline == nil && Deleted(o.Found) {
		return nil
	}
	return o.Found
}

// Whole refuses a request that describes servers itself while the cloud cannot say what
// the request leaves out: half of a topology would be in force. It is no fault of the
// request.
func (o *Observation) Whole() error {
	if o.Away != nil && o.Inline != nil {
		return o.Away
	}
	return nil
}

// ID is the stack's id, or the name of a stack that was not found yet; and the name by
// which it was given, "" for none. now is what was in force before. A name stays until
// another is given: the stack may be made anew under that name.
func (o *Observation) ID(now store.Desired) (id, name string) {
	asked, found := o.StackID, IDOf(o.Topology())
	given := now.StackName
	if given == "" && uuid.Validate(now.StackID) != nil {
		given = now.StackID // it has not been found yet
	}
	switch {
	case found == "" && (asked == "" || asked == given || asked == now.StackID):
		return now.StackID, now.StackName
	case found == "":
		found = asked
	case asked != "" && asked != found:
		given = asked
	}
	if uuid.Validate(found) != nil { // it was not observed yet, so it may be a name itself
		given = ""
	}
	return found, given
}

// IDOf is the stack that a topology names, "" for none.
func IDOf(t *api.Topology) string {
	if t == nil {
		return ""
	}
	return t.StackID
}

// Deleted says that the stack is about to go, or is gone.
func Deleted(t *api.Topology) bool { return t != nil && strings.HasPrefix(t.StackStatus, "DELETE_") }
