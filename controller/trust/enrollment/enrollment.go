// Package enrollment decides who is a node: it redeems join tokens for client
// certificates, renews them, and checks on every request that the identity behind
// a certificate is still the node's own. It signs nothing itself (controller/trust/pki)
// and knows nothing of what a node may then do.
package enrollment

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/trust/pki"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Service keeps the identities of nodes. Every error that concerns the caller is,
// or wraps, an *api.Problem. Fill the fields before the first call; they are not
// changed after it.
type Service struct {
	Store *store.Store
	PKI   *pki.Authority
	// Now is the clock, time.Now when nil.
	Now func() time.Time
	// Log, slog.Default() when nil. It never sees a token.
	Log *slog.Logger
	// Attestor verifies that a machine is the server that it claims to be; nil trusts
	// the join token alone: anyone who has read user_data may be any server of the instance
	// that is expected and has not enrolled yet.
	Attestor Attestor
	// Discover observes the instance's stack for a server that no topology names yet,
	// and adds it to the topology in force if it is there. It is called outside of any
	// transaction, for a server with a good token; nil: there is no discovery. A
	// not-found means that the stack has no such server; any other error, that the stack
	// could not be observed.
	Discover func(ctx context.Context, instanceID, serverID string) error
	// Changed is called after an identity came, went or changed, once that is on
	// disk, so that held polls of the node are evaluated again.
	Changed func(nodeID string)
	// Gone is called within the transaction that ends an identity by hand or by
	// re-enrollment, with what else ends with it (permit.Service.NodeGone).
	Gone func(tx *store.Tx, nodeID string) error
	// Metrics counts what happened. Required.
	Metrics Metrics

	once            sync.Once
	refused, served limiter
	seen            sync.Map // of token ids: the instance that had it last
}

// Metrics counts, one at a time.
type Metrics interface {
	// Enrollment is a request to enroll, by its result: one of the Event constants, or
	// the Reason of an Attestor's Refusal.
	Enrollment(result string)
	// Renewal is a certificate that was renewed.
	Renewal()
	// Revocation is an identity that ended before its time.
	Revocation()
	// DiscoveryFailure is a server that is not expected, whose stack could not be observed.
	DiscoveryFailure()
}

// The results of requests to enroll.
const (
	EventEnrolled    = "enrolled"
	EventReissued    = "reissued"
	EventBadToken    = "bad_token"
	EventNotExpected = "not_expected"
	EventRefused     = "refused"
	EventUnconfirmed = "unconfirmed"
	EventLimited     = "limited"
)

// Results are all of them.
var Results = []string{EventEnrolled, EventReissued, EventBadToken, EventNotExpected, EventRefused, EventUnconfirmed, EventLimited}

func (s *Service) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

func (s *Service) log() *slog.Logger {
	if s.Log == nil {
		return slog.Default()
	}
	return s.Log
}

// afterCommit counts a change and reports it once it is on disk.
func (s *Service) afterCommit(tx *store.Tx, nodeID string, count func()) {
	tx.OnCommit(func() {
		if count != nil {
			count()
		}
		if s.Changed != nil {
			s.Changed(nodeID)
		}
	})
}

func unknownNode(nodeID string) error {
	return api.NewProblem(api.ProblemNotFound, fmt.Sprintf("no node %q: GET /v1/nodes lists them", nodeID)).With(api.Action{Call: api.CallListNodes})
}
