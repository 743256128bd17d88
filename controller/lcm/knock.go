package lcm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nodehitch/nodehitch/controller/stack"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Knock looks into the instance's stack for a server that came with a good join token
// and that no topology names, and puts what it finds there into the topology in force:
// so machines converge while Heat is still at work. Nothing leaves that topology here,
// and no server in it is changed. Looks are few: one at a time for each instance, and
// at most one in ten seconds, in five minutes while they find nothing.
//
// nil says that it is worth looking for the server in the topology again. A not-found
// says why the server is not in it; any other error, that nobody could say.
func (s *Service) Knock(ctx context.Context, instanceID, serverID string) error {
	now := s.Now()
	l, first, wait := s.knocks.begin(instanceID, now)
	if wait > 0 { // the look is over, so what came of it can be read
		if _, known := l.refused[serverID]; !known {
			return notAdmitted("its stack was looked into %v ago, and will not be again within %v", l.age(now), wait.Round(time.Second))
		}
	}
	if first {
		s.lookAroundOnce(ctx, instanceID, l)
	}
	select {
	case <-l.done:
		return l.answer(serverID)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lookAroundOnce makes the look, for all who wait for it: it does not end with the one
// who asked first.
func (s *Service) lookAroundOnce(ctx context.Context, instanceID string, l *knock) {
	ctx = context.WithoutCancel(ctx)
	var a *admission
	err := errors.New("the look into the stack was cut off")
	defer func() { s.knocks.end(instanceID, l, a, err, s.Now()) }()
	if a, err = s.lookAround(ctx, instanceID); a != nil && len(a.refused) > 0 {
		s.Log.Info("servers of the stack that are not taken into the topology", "instance", instanceID, "refused", a.refused)
	}
}

// lookAround looks into the stack and admits who is there.
func (s *Service) lookAround(ctx context.Context, instanceID string) (a *admission, err error) {
	err = s.looking(instanceID, func() error {
		l := &look{Request: stack.Request{InstanceID: instanceID}}
		if err := s.view(instanceID, func(u *unit) error { return first(u.mayAdmit(), u.fill(l)) }); err != nil {
			return err
		}
		if l.StackID == "" {
			return notAdmitted("no stack is known of VNF instance %s", instanceID)
		}
		if err := s.ask(ctx, s.Source, l, lookWithin); err != nil {
			return err
		}
		switch {
		case l.away != nil:
			return l.away
		case l.gone != nil:
			return notAdmitted("there is no stack %s", l.StackID)
		case deleted(l.found):
			return notAdmitted("stack %s is %s", l.StackID, l.found.StackStatus)
		case l.found == nil:
			return notAdmitted("no cloud is configured for VNF instance %s", instanceID)
		}
		return s.update(ctx, instanceID, func(u *unit) error {
			if err := first(u.current(l), u.mayAdmit()); err != nil {
				return err
			}
			a, err = u.admit(l)
			return err
		})
	})
	return a, err
}

// mayAdmit refuses servers of an instance that is to end, or whose nodes are not let in.
func (u *unit) mayAdmit() error {
	if err := u.mayOperate(api.OperationRequest{Operation: api.Heal}); err != nil {
		return err
	}
	history, err := u.history()
	if err != nil || len(history) == 0 {
		return err
	}
	if o := history[0]; o.Operation.Operation == api.Terminate && o.Phase == api.PhaseStart && o.State != api.Failed && u.now.Before(o.Deadline) {
		return notAdmitted("VNF instance %s is being terminated: operation %s", u.inst.ID, o.ID)
	}
	return nil
}

// notAdmitted is why a server that called is not in the topology.
func notAdmitted(format string, args ...any) error {
	return api.NewProblem(api.ProblemNotFound, fmt.Sprintf(format, args...))
}

// answer is what a look means for a server.
func (l *knock) answer(serverID string) error {
	if l.err != nil {
		return l.err
	}
	if why, ok := l.refused[serverID]; ok {
		return notAdmitted("%s", why)
	}
	return nil
}
