package enrollment

import (
	"context"
	"errors"
	"fmt"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// findOrDiscover is the node that may enroll under this id. If no topology names it, the
// stack is observed and the topology is read again: machines need not wait for the end
// of the operation that makes them.
func (s *Service) findOrDiscover(ctx context.Context, instanceID, nodeID string) (store.Node, error) {
	node, err := s.expected(instanceID, nodeID)
	if !isNotExpected(err) || s.Discover == nil {
		return node, err
	}
	failure := s.Discover(ctx, instanceID, nodeID)
	if node, err = s.expected(instanceID, nodeID); !isNotExpected(err) {
		return node, err
	}
	return store.Node{}, s.notDiscovered(err, failure, instanceID, nodeID)
}

func (s *Service) expected(instanceID, nodeID string) (node store.Node, err error) {
	err = s.Store.View(func(tx *store.Tx) error {
		node, err = s.expectedNode(tx, instanceID, nodeID)
		return err
	})
	return node, err
}

// notDiscovered adds the outcome of the discovery to the answer. The cloud's own words
// go to the log only: the machine gets a general reason.
func (s *Service) notDiscovered(notExpected, failure error, instanceID, nodeID string) error {
	var answer, problem *api.Problem
	errors.As(notExpected, &answer)
	errors.As(failure, &problem)
	outcome := "; the server was not found in the instance's stack"
	switch {
	case failure == nil, errors.Is(failure, context.Canceled): // the machine has hung up
	case problem != nil && problem.Type == api.ProblemNotFound:
		s.log().Debug("a server that no topology names was not added from its stack", "node", nodeID, "instance", instanceID, "error", failure)
	default:
		s.Metrics.DiscoveryFailure()
		s.log().Warn("the stack of a server that no topology names could not be observed", "node", nodeID, "instance", instanceID, "error", failure)
		why := "the controller's log says why"
		if problem != nil {
			why = problem.Title
		}
		outcome = fmt.Sprintf("; the instance's stack could not be observed (%s)", why)
	}
	return api.NewProblem(answer.Type, answer.Detail+outcome)
}

func isNotExpected(err error) bool {
	var problem *api.Problem
	return errors.As(err, &problem) && problem.Type == api.ProblemServerNotExpected
}
