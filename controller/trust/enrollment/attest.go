package enrollment

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Attestor decides whether the machine behind an enrollment is the server that it
// claims to be.
type Attestor interface {
	// Attest returns the identity proof. Its error refuses the machine: a *Refusal, or
	// another that is or wraps an *api.Problem.
	Attest(ctx context.Context, node store.Node, req api.EnrollRequest, remote netip.Addr) (api.Attestation, error)
	// Enrolled is called after the certificate of a machine that Attest let in is on
	// disk. It does not block.
	Enrolled(node store.Node)
}

// Refusal is why an Attestor refuses. Only its Problem reaches the machine, which
// may be another than the server.
type Refusal struct {
	Problem *api.Problem
	// Reason is what Metrics.Enrollment is told, of few values.
	Reason string
	// Found is for the log alone: what the machine must not know; may be nil.
	Found error
	// Passing says that it is a step on the way of good machines: nothing to warn of.
	Passing bool
	// RetryAfter is when another try is worth it; 0 leaves that to the problem's type.
	RetryAfter time.Duration
}

// Error is the problem's, with what was found.
func (r *Refusal) Error() string {
	if r.Found == nil {
		return r.Problem.Error()
	}
	return r.Problem.Error() + "; found: " + r.Found.Error()
}

// Unwrap is the problem.
func (r *Refusal) Unwrap() error { return r.Problem }

// attest asks the Attestor, if there is one, and puts into the claim what it says. The
// machine of a lost answer is not asked again: it has the key that was certified for
// what it proved then.
func (s *Service) attest(ctx context.Context, c *claim, node store.Node, req api.EnrollRequest) (err error) {
	switch {
	case has(node, c.keyHash):
		c.known, c.attestation = true, node.Identity.Attestation
	case s.Attestor == nil:
		c.attestation = api.AttestedByToken
	default:
		c.attestation, err = s.Attestor.Attest(ctx, node, req, c.remote)
	}
	return err
}

// refusal counts and logs why a server with a good token was refused. Servers that
// come before their topology are the normal case and not worth a line each; nor are
// those that wait for an operator, or fetch their nonce.
func (s *Service) refusal(err error, nodeID string, remote netip.Addr) {
	var problem *api.Problem
	var refused *Refusal
	if errors.As(err, &refused) {
		s.Metrics.Enrollment(refused.Reason)
		level := slog.LevelWarn
		if refused.Passing {
			level = slog.LevelInfo
		}
		s.log().Log(context.Background(), level, "enrollment refused", "event", api.EventEnrollmentRefused, "node", nodeID, "remote", remote, "reason", refused.Reason, "error", err)
		return
	}
	passing := map[string]string{api.ProblemServerNotExpected: EventNotExpected, api.ProblemRestoreUnconfirmed: EventUnconfirmed}
	if errors.As(err, &problem) && passing[problem.Type] != "" {
		s.Metrics.Enrollment(passing[problem.Type])
		s.log().Debug("enrollment refused", "event", api.EventEnrollmentRefused, "node", nodeID, "remote", remote, "reason", passing[problem.Type], "error", err)
		return
	}
	if errors.Is(err, context.Canceled) {
		s.log().Debug("the machine gave the enrollment up", "node", nodeID, "remote", remote)
		return
	}
	s.Metrics.Enrollment(EventRefused)
	s.log().Warn("enrollment refused", "event", api.EventEnrollmentRefused, "node", nodeID, "remote", remote, "reason", EventRefused, "error", err)
}
