package enrollment

import (
	"context"
	"errors"
	"fmt"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// lookFor is the node that may enroll under this id. One that no topology names is
// looked for in its stack, and then once more in the topology: machines need not wait
// for the end of the operation that makes them.
func (s *Service) lookFor(ctx context.Context, instanceID, nodeID string) (store.Node, error) {
	node, err := s.expected(instanceID, nodeID)
	if !isNotExpected(err) || s.Knock == nil {
		return node, err
	}
	knocked := s.Knock(ctx, instanceID, nodeID)
	if node, err = s.expected(instanceID, nodeID); !isNotExpected(err) {
		return node, err
	}
	return store.Node{}, s.knockedInVain(err, knocked, instanceID, nodeID)
}

func (s *Service) expected(instanceID, nodeID string) (node store.Node, err error) {
	err = s.Store.View(func(tx *store.Tx) error {
		node, err = s.expectedNode(tx, instanceID, nodeID)
		return err
	})
	return node, err
}

// knockedInVain adds to the answer what came of the look into the stack. What the
// cloud said is for the log: the machine is told in general words.
func (s *Service) knockedInVain(notExpected, knocked error, instanceID, nodeID string) error {
	var answer, problem *api.Problem
	errors.As(notExpected, &answer)
	errors.As(knocked, &problem)
	outcome := "; a look into its stack has not changed that"
	switch {
	case knocked == nil, errors.Is(knocked, context.Canceled): // the machine has hung up
	case problem != nil && problem.Type == api.ProblemNotFound:
		s.log().Debug("a server that no topology names was not taken from its stack", "node", nodeID, "instance", instanceID, "error", knocked)
	default:
		s.Metrics.DiscoveryFailure()
		s.log().Warn("a server that no topology names could not be looked for in its stack", "node", nodeID, "instance", instanceID, "error", knocked)
		why := "the controller's log says why"
		if problem != nil {
			why = problem.Title
		}
		outcome = fmt.Sprintf("; its stack could not be looked into (%s)", why)
	}
	return api.NewProblem(answer.Type, answer.Detail+outcome)
}

func isNotExpected(err error) bool {
	var problem *api.Problem
	return errors.As(err, &problem) && problem.Type == api.ProblemServerNotExpected
}
