package instance

import (
	"context"
	"fmt"

	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/progress"
	"github.com/nodehitch/nodehitch/controller/lifecycle/reconcile"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// ClusterAccess is how a VIM uses the cluster of an instance. Treat it as a secret. What is not
// known yet, or never will be, is not-found with the reason.
func (s *Service) ClusterAccess(_ context.Context, id string) (access api.ClusterAccess, err error) {
	err = s.Runner.View(id, func(t *tx.Tx) error {
		d, err := desired.InForce(t)
		if err != nil {
			return err
		}
		if d.Params.ClusterMembers() == nil {
			return noAccess(t, "its parameters have no cluster_members, so nodehitch makes none; add it, and PUT the instance").With(
				api.Action{Call: api.CallPutInstance, ID: id})
		}
		out, _, err := s.Reconciler.Plan(t, d)
		if err != nil {
			return err
		}
		facts, err := reconcile.ClusterFacts(t)
		if err != nil {
			return err
		}
		if out.Endpoint == "" || facts.CACertificate == "" || facts.Token == "" {
			return awaitedAccess(t)
		}
		access = api.ClusterAccess{Endpoint: out.Endpoint, CACertificate: facts.CACertificate, Token: facts.Token, TokenExpiresAt: facts.TokenExpiresAt}
		return nil
	})
	return access, err
}

// awaitedAccess says what the master lacks that is to report the access.
func awaitedAccess(t *tx.Tx) error {
	owner, found, err := t.Nodes().Get(t.Instance.CarriedOver.Owner)
	switch target := progress.Target(owner, t.Store.Epoch()); {
	case err != nil:
		return err
	case !found:
		return noAccess(t, "it has no master yet")
	case target.Ready:
		return noAccess(t, fmt.Sprintf("its master %s (%s) is ready and has not reported any; upgrade its agent", owner.Name, owner.ID))
	default:
		return noAccess(t, fmt.Sprintf("its master %s (%s) has not reported any yet: %s, %s", owner.Name, owner.ID, target.Reason, target.Message))
	}
}

func noAccess(t *tx.Tx, why string) *api.Problem {
	return api.NewProblem(api.ProblemNotFound, fmt.Sprintf("there is no access to the cluster of %s: %s", t.Instance.Title(), why))
}
