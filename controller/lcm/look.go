package lcm

import (
	"context"
	"errors"
	"fmt"
	"time"

	uuids "github.com/google/uuid"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/stack"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// look is what a source was asked, outside of any transaction, and what it said.
type look struct {
	stack.Request
	// name is what the stack was found by before, "" where the request names one itself.
	name string
	// strict: no other stack of that name will do.
	strict bool
	// succeeds: the stack is gone, and the one of its name is another.
	succeeds bool
	// version of the desired state was in force when it was asked; 0 is no instance.
	version int64
	// number orders the looks into one stack by when they began.
	number int64
	// found is the topology, nil where there is none to be had.
	found *api.Topology
	// gone is that there is no such stack, away that the cloud did not say.
	gone, away *api.Problem
}

// How long a look may take: for who cannot do without it, and for who can.
const (
	lookWithin  = 2 * time.Minute
	lookBriefly = 30 * time.Second
)

// ask has the source look. A stack that does not exist, and a cloud that does not
// answer, are no errors here: what they mean depends on who asks.
func (s *Service) ask(ctx context.Context, source stack.Source, l *look, within time.Duration) error {
	l.number = s.looks.begin()
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var err error
	if l.found, err = source.Resolve(limited, l.Request); isGone(err) && l.name != "" && !l.strict {
		err = l.successor(limited, source, err)
	}
	var problem *api.Problem
	switch {
	case err == nil:
	case limited.Err() != nil && ctx.Err() == nil:
		l.found, l.away = nil, api.NewProblem(api.ProblemCloud, fmt.Sprintf("the cloud has not answered within %s", within))
	case errors.Is(err, stack.ErrNotGiven):
		return nil
	case isGone(err):
		errors.As(err, &l.gone)
		// What a request says of servers itself stands without the stack.
		if l.found, err = (stack.Inline{}).Resolve(ctx, l.Request); err != nil {
			l.found = nil
		}
	case errors.As(err, &problem) && problem.Type == api.ProblemCloud:
		l.found, l.away = nil, problem
	default:
		return fmt.Errorf("looking into the stack of VNF instance %s: %w", l.InstanceID, err)
	}
	if s.looks.saw(l, s.Now().UTC()) {
		s.Hub.Changed(l.InstanceID, notify.Instances)
	}
	return nil
}

func isGone(err error) bool {
	var problem *api.Problem
	return errors.As(err, &problem) && problem.Type == api.ProblemStackGone
}

// successor looks for the stack that took the place of the one that is gone: whoever
// heals an entire VNF makes one of the same name. gone is the error where there is none.
func (l *look) successor(ctx context.Context, source stack.Source, gone error) error {
	byName := l.Request
	byName.StackID = l.name
	found, err := source.Resolve(ctx, byName)
	switch {
	case isGone(err):
		return gone
	case err == nil && found.StackID == l.StackID:
		l.found = found // it is there after all
	case err == nil:
		l.Request, l.found, l.succeeds = byName, found, true
	}
	return err
}

// topology is what there is to put in force, nil where the one in force stays. What
// is being deleted is not put in force, unless the request says itself what it has.
func (l *look) topology() *api.Topology {
	if l.Inline == nil && deleted(l.found) {
		return nil
	}
	return l.found
}

// whole refuses a request that describes servers itself while nobody can say what it
// leaves out: half of a topology would be in force. It is no fault of the request.
func (l *look) whole() error {
	if l.away != nil && l.Inline != nil {
		return l.away
	}
	return nil
}

// stackID is the stack's id, or the name of one that was not found yet, and the name
// that it was given by, "" for none, after the look; now is what was in force before. A
// name stays until another is given: the stack of an id may be made anew under it.
func (l *look) stackID(now store.Desired) (id, name string) {
	asked, found := l.StackID, stackOf(l.topology())
	given := now.StackName
	if given == "" && uuids.Validate(now.StackID) != nil {
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
	if uuids.Validate(found) != nil { // nobody has looked for it, so it may be a name itself
		given = ""
	}
	return found, given
}

// looksTried is how often one request looks into its stack.
const looksTried = 4

// errOvertaken says that a look is out of date: something newer is in force, or was
// seen.
var errOvertaken = errors.New("the instance was changed while its stack was looked into")

// looking has try look and act on what it saw, again where another request came in
// between: what was asked for an older desired state does not overwrite a newer one.
func (s *Service) looking(instanceID string, try func() error) error {
	for range looksTried {
		if err := try(); !errors.Is(err, errOvertaken) {
			return err
		}
	}
	return api.NewProblem(api.ProblemUnavailable, fmt.Sprintf(
		"VNF instance %s was changed each of the %d times that its stack was looked into; send the request again", instanceID, looksTried))
}

// current refuses a look that something newer has overtaken.
func (u *unit) current(l *look) error {
	if u.inst.DesiredVersion != l.version || !u.looks.take(u.inst.ID, l.number) {
		return errOvertaken
	}
	return nil
}

// fill adds what the request leaves out and the instance knows of its cloud.
func (u *unit) fill(l *look) error {
	d, err := u.inForce()
	if err != nil {
		return err
	}
	l.version = u.inst.DesiredVersion
	if l.StackID = firstText(l.StackID, stackOf(l.Inline)); l.StackID == "" {
		l.StackID, l.name = d.StackID, d.StackName
	}
	if l.VIM == nil {
		l.VIM, err = u.Store.Unseal(d.VIMConnectionInfo)
	}
	return err
}
