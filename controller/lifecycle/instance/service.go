// Package instance decides what is desired of a VNF instance: a PUT and which files it
// needs, its deletion, and its confirmation after a restore.
package instance

import (
	"context"
	"errors"
	"log/slog"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/lifecycle/packagefile"
	"github.com/nodehitch/nodehitch/controller/lifecycle/presence"
	"github.com/nodehitch/nodehitch/controller/lifecycle/reconcile"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
)

// Service keeps instances. Its fields are set before use; its methods may be called at
// the same time. Errors that a client should see are *api.Problem.
type Service struct {
	Runner     *tx.Runner
	Observer   *stack.Observer
	Reconciler *reconcile.Reconciler
	Files      *packagefile.Validator
	Presence   *presence.Presence
	JoinTokens JoinTokens
	// OwnNames are the names by which nodes find the controller: no parameters may give one
	// of them another address.
	OwnNames []string
	Log      *slog.Logger
	// Accepted is called after each change of what is desired: the stack of the instance
	// may be another.
	Accepted func(instanceID string)
}

// JoinTokens are the join tokens of instances.
type JoinTokens interface {
	// NewJoinToken puts a new join token into the instance.
	NewJoinToken(tx *store.Tx, instance *store.Instance) error
}

// TakeUp reconciles every instance after a start. It continues past one that cannot be
// planned: the others must not wait for it.
func (s *Service) TakeUp(ctx context.Context) error {
	var ids []string
	err := s.Runner.ViewAll(func(t *tx.Tx) error {
		ids = append(ids, t.Instance.ID)
		return nil
	})
	for _, id := range ids {
		if err := errors.Join(s.validateLeft(ctx, id), s.Reconciler.Reconcile(ctx, id)); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the end of ctx is how a stop is told
			}
			s.Log.Error("an instance cannot be planned at the start", "instance", id, "error", err)
		}
	}
	return err
}
