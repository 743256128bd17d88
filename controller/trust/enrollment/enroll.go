package enrollment

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/trust/pki"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// Enroll redeems a join token (bearer) for a client certificate of the server that
// the request names. The problems: unauthorized, without a detail, for a token that is
// not valid; too-many-requests (*ratelimit.Exceeded); server-not-expected while no topology of
// the token's instance names the server, and restore-unconfirmed, which are both tried
// again; identity-live and revoked, which only an operator changes.
//
// A lost answer locks no machine out: the same key, which proves that it is the same
// machine, enrolls again while its certificate lasts.
func (s *Service) Enroll(ctx context.Context, bearer string, req api.EnrollRequest, remote netip.Addr) (api.IssuedCertificate, error) {
	instanceID, err := s.checkToken(bearer, remote)
	if err != nil {
		return api.IssuedCertificate{}, err
	}
	// DMI and some clouds print a UUID in capitals.
	nodeID := strings.ToLower(req.ServerID)
	node, err := s.findOrDiscover(ctx, instanceID, nodeID)
	if err != nil {
		s.refusal(err, nodeID, remote)
		return api.IssuedCertificate{}, err
	}
	keyHash, err := requestKeyHash(req.CertificateRequest)
	if err != nil {
		return api.IssuedCertificate{}, err
	}
	if err := s.mayEnroll(node, keyHash); err != nil {
		s.refusal(err, nodeID, remote)
		return api.IssuedCertificate{}, err
	}
	c := claim{instanceID: instanceID, nodeID: nodeID, keyHash: keyHash, remote: remote}
	if err := s.attest(ctx, &c, node, req); err != nil {
		s.refusal(err, nodeID, remote)
		return api.IssuedCertificate{}, fmt.Errorf("attesting the server %s: %w", nodeID, err)
	}
	return s.issue(c, req)
}

// claim is that of a machine to be a server.
type claim struct {
	instanceID, nodeID, keyHash string
	remote                      netip.Addr
	attestation                 api.Attestation
	// known: it is the machine that enrolled, by its key.
	known bool
}

// has reports whether the server has a live identity over this key.
func has(node store.Node, keyHash string) bool {
	return node.Identity.Live() && !node.MayReenroll && node.Identity.KeyHash == keyHash
}

// checkToken checks the token and the rate. Bad tokens never delay a good one from
// behind the same router.
func (s *Service) checkToken(bearer string, remote netip.Addr) (instanceID string, err error) {
	s.once.Do(func() {
		s.refused = newLimiter(refusedEvery, refusedBurst, maxRemotes)
		s.served = newLimiter(servedEvery, servedBurst, maxRemotes)
	})
	instanceID, ok, err := s.instanceOf(bearer)
	if err != nil {
		return "", err
	}
	limiter := s.served
	if !ok {
		limiter = s.refused
	}
	if err := limiter.take(remote, s.now()); err != nil {
		s.Metrics.Enrollment(EventLimited)
		return "", err
	}
	if !ok {
		s.Metrics.Enrollment(EventBadToken)
		s.log().Warn("enrollment refused: the join token is not valid", "event", api.EventEnrollmentRefused, "remote", remote, "reason", EventBadToken)
		return "", api.NewProblem(api.ProblemUnauthorized, "")
	}
	return instanceID, nil
}

// expectedNode answers the same for a server of another instance as for none: a
// token tells nothing about other instances.
func (s *Service) expectedNode(tx *store.Tx, instanceID, nodeID string) (store.Node, error) {
	node, found, err := tx.Nodes().Get(nodeID)
	if err != nil {
		return store.Node{}, err
	}
	if !found || !node.Expected || node.InstanceID != instanceID {
		return store.Node{}, api.NewProblem(api.ProblemServerNotExpected, fmt.Sprintf(
			"the topology of the VNF instance %s does not name the server %q yet: it does once the operation that makes the server ends; try again later", instanceID, nodeID))
	}
	if !s.confirmed(node) {
		return store.Node{}, s.unconfirmed(node)
	}
	return node, nil
}

// mayEnroll is the rule for a server that the topology expects: it has no live identity
// and no operator revoked it; or an operator allows one more enrollment; or it has the
// same key as before.
func (s *Service) mayEnroll(node store.Node, keyHash string) error {
	switch id := node.Identity; {
	case id == nil, node.MayReenroll:
		return nil
	case !id.Live() && !id.RevokedByHand:
		return nil
	case !id.Live():
		return api.NewProblem(api.ProblemRevoked, fmt.Sprintf(
			"the identity of the server %s was revoked on %s (%s): POST /v1/nodes/%s/reenroll lets it enroll again",
			node.ID, id.RevokedAt.UTC().Format(time.RFC3339), id.RevokedReason, node.ID)).With(api.Action{Call: api.CallReenrollNode, ID: node.ID})
	case id.KeyHash == keyHash && !s.now().After(id.NotAfter):
		return nil
	default:
		return api.NewProblem(api.ProblemIdentityLive, fmt.Sprintf(
			"the server %s enrolled on %s with another key: if it was rebuilt, POST /v1/nodes/%s/reenroll lets it enroll again",
			node.ID, id.EnrolledAt.UTC().Format(time.RFC3339), node.ID)).With(api.Action{Call: api.CallReenrollNode, ID: node.ID})
	}
}

// issue signs first, then checks again what may have changed in between and records. A
// certificate that no record names is not accepted.
func (s *Service) issue(c claim, req api.EnrollRequest) (api.IssuedCertificate, error) {
	chain, serial, notAfter, err := s.PKI.SignNode(c.nodeID, []byte(req.CertificateRequest))
	if err != nil {
		return api.IssuedCertificate{}, fmt.Errorf("signing the certificate of the server %s: %w", c.nodeID, err)
	}
	result := EventEnrolled
	var enrolled store.Node
	err = s.Store.Update(func(tx *store.Tx) error {
		tx.By("node " + c.nodeID)
		node, err := s.expectedNode(tx, c.instanceID, c.nodeID)
		if err != nil {
			return err
		}
		if err := s.mayEnroll(node, c.keyHash); err != nil {
			return err
		}
		if c.known && !has(node, c.keyHash) {
			return api.NewProblem(api.ProblemUnavailable, fmt.Sprintf("the identity of the server %s was ended during the request: try again", c.nodeID))
		}
		identity := &store.Identity{Serial: serial, KeyHash: c.keyHash, NotAfter: notAfter, EnrolledAt: s.now(), Attestation: c.attestation}
		if f := req.Facts; f != nil && f.UptimeSeconds > 0 {
			at := identity.EnrolledAt.Add(-time.Duration(f.UptimeSeconds) * time.Second)
			identity.BootedAt = &at
		}
		if node.Identity.Live() && !node.MayReenroll {
			// The first answer may have arrived after all.
			result = EventReissued
			identity.PreviousSerial = node.Identity.Serial
			identity.EnrolledAt, identity.BootedAt = node.Identity.EnrolledAt, node.Identity.BootedAt
		}
		node.Identity, node.MayReenroll = identity, false
		enrolled = node
		s.afterCommit(tx, c.nodeID, func() { s.Metrics.Enrollment(result) })
		return tx.Nodes().Put(c.nodeID, node)
	})
	if err != nil {
		return api.IssuedCertificate{}, err
	}
	if s.Attestor != nil {
		s.Attestor.Enrolled(enrolled)
	}
	s.log().Info("node enrolled", "event", api.EventNodeEnrolled, "node", c.nodeID, "instance", c.instanceID, "remote", c.remote, "serial", serial, "result", result, "attestation", c.attestation)
	return api.IssuedCertificate{Certificate: chain, NodeID: c.nodeID}, nil
}

func requestKeyHash(csrPEM string) (string, error) {
	hash, err := pki.RequestKeyHash([]byte(csrPEM))
	var invalid *pki.RequestError
	if errors.As(err, &invalid) {
		return "", api.NewInvalid(fault.List{fault.Root.Key("certificateRequest").Fault(invalid.Message)})
	}
	return hash, err
}
