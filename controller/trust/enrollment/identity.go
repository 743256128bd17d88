package enrollment

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/controller/trust/pki"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Authenticate tells which node the peer certificates of a TLS connection are, and
// with which serial number. It is called for each request, not for each
// connection, and also for polls that wake up: what was revoked in between is
// refused. With renewal a certificate that ended up to pki.RenewalGrace ago is
// good; use it for the renewal alone. The problems are unauthorized (there is no
// certificate of ours, or it has ended or was replaced), revoked, and
// restore-unconfirmed, with which the node is returned anyway.
func (s *Service) Authenticate(_ context.Context, peerCerts []*x509.Certificate, renewal bool) (nodeID, serial string, err error) {
	if len(peerCerts) == 0 {
		return "", "", api.NewProblem(api.ProblemUnauthorized, "this needs the client certificate that enrollment gives")
	}
	nodeID, serial, err = s.PKI.VerifyNode(peerCerts, s.now(), renewal)
	ended := err
	if errors.Is(ended, pki.ErrExpired) {
		// Of a node that waits for an operator even the renewal would be refused now.
		nodeID, serial, err = s.PKI.VerifyNode(peerCerts, s.now(), true)
	}
	if err != nil {
		return "", "", api.NewProblem(api.ProblemUnauthorized, err.Error())
	}
	var node store.Node
	err = s.Store.View(func(tx *store.Tx) (err error) {
		node, err = s.current(tx, nodeID, serial)
		return err
	})
	switch {
	case isUnconfirmed(err):
		return nodeID, serial, errors.Join(s.learn(node, serial, peerCerts[0]), err)
	case ended != nil:
		return "", "", api.NewProblem(api.ProblemUnauthorized, ended.Error())
	case err == nil && node.Identity.PreviousSerial != "" && serial == node.Identity.Serial:
		err = s.dropPrevious(nodeID, serial)
	}
	if err != nil {
		return "", "", err
	}
	return nodeID, serial, nil
}

// current is the node whose certificate has this serial, if it may still use it; the
// node comes with a restore-unconfirmed too.
func (s *Service) current(tx *store.Tx, nodeID, serial string) (store.Node, error) {
	node, found, err := tx.Nodes().Get(nodeID)
	switch {
	case err != nil:
		return store.Node{}, err
	case !found:
		return store.Node{}, api.NewProblem(api.ProblemRevoked, fmt.Sprintf("the server %s belongs to no VNF instance any more", nodeID))
	case node.Identity != nil && !node.Identity.Live():
		return store.Node{}, api.NewProblem(api.ProblemRevoked, fmt.Sprintf(
			"the identity of the server %s was revoked on %s (%s)", nodeID, node.Identity.RevokedAt.UTC().Format(time.RFC3339), node.Identity.RevokedReason))
	case !s.confirmed(node):
		return node, s.unconfirmed(node)
	case node.Identity == nil:
		return store.Node{}, api.NewProblem(api.ProblemRevoked, fmt.Sprintf("the server %s has no identity here: it must enroll", nodeID))
	case serial != node.Identity.Serial && serial != node.Identity.PreviousSerial:
		return store.Node{}, api.NewProblem(api.ProblemUnauthorized, fmt.Sprintf(
			"the certificate %s of the server %s was replaced by %s", serial, nodeID, node.Identity.Serial))
	}
	return node, nil
}

// dropPrevious ends the certificate before this one: the new one has arrived.
func (s *Service) dropPrevious(nodeID, serial string) error {
	return s.Store.Update(func(tx *store.Tx) error {
		node, err := s.current(tx, nodeID, serial)
		if err != nil || serial != node.Identity.Serial || node.Identity.PreviousSerial == "" {
			return err
		}
		node.Identity.PreviousSerial = ""
		s.afterCommit(tx, nodeID, nil)
		return tx.Nodes().Put(nodeID, node)
	})
}

// Renew gives a node that Authenticate let in (with this serial) a certificate over
// a new key. The certificate it came with stays good until the new one has made a
// call, so that a lost answer strands no node.
func (s *Service) Renew(ctx context.Context, nodeID, serial string, req api.CertificateRequest) (api.IssuedCertificate, error) {
	keyHash, err := requestKeyHash(req.CertificateRequest)
	if err != nil {
		return api.IssuedCertificate{}, err
	}
	chain, newSerial, notAfter, err := s.PKI.SignNode(nodeID, []byte(req.CertificateRequest))
	if err != nil {
		return api.IssuedCertificate{}, fmt.Errorf("renewing the certificate of the server %s: %w", nodeID, err)
	}
	err = s.Store.Update(func(tx *store.Tx) error {
		tx.By(event.Caller(ctx))
		node, err := s.current(tx, nodeID, serial)
		if err != nil {
			return err
		}
		node.Identity.Serial, node.Identity.PreviousSerial = newSerial, serial
		node.Identity.KeyHash, node.Identity.NotAfter = keyHash, notAfter
		s.afterCommit(tx, nodeID, s.Metrics.Renewal)
		return tx.Nodes().Put(nodeID, node)
	})
	if err != nil {
		return api.IssuedCertificate{}, err
	}
	s.log().Info("certificate renewed", "event", api.EventCertificateRenewed, "node", nodeID, "serial", newSerial, "previous", serial)
	return api.IssuedCertificate{Certificate: chain, NodeID: nodeID}, nil
}

// Revoke ends a node's identity by hand, also that of a server which has not
// enrolled yet: it then cannot, until Reenroll. Again changes nothing.
func (s *Service) Revoke(ctx context.Context, nodeID, why string) error {
	return s.Store.Update(func(tx *store.Tx) error {
		tx.By(event.Caller(ctx))
		node, found, err := tx.Nodes().Get(nodeID)
		if err != nil {
			return err
		}
		if !found {
			return unknownNode(nodeID)
		}
		if node.Identity == nil {
			node.Identity = &store.Identity{}
		}
		return s.revoke(tx, node, why, true)
	})
}

// RevokeTx ends the identity of a server that the topology no longer names, within
// the caller's transaction. A node that has none, or does not exist, is left alone.
// Should a topology expect the server again, it may enroll again.
func (s *Service) RevokeTx(tx *store.Tx, nodeID, why string) error {
	node, found, err := tx.Nodes().Get(nodeID)
	if err != nil || !found || node.Identity == nil {
		return err
	}
	return s.revoke(tx, node, why, false)
}

func (s *Service) revoke(tx *store.Tx, node store.Node, why string, byHand bool) error {
	id := node.Identity
	if !id.Live() && !node.MayReenroll && (id.RevokedByHand || !byHand) {
		return nil
	}
	if id.Live() {
		now := s.now()
		id.RevokedAt, id.RevokedReason = &now, why
	}
	id.RevokedByHand = id.RevokedByHand || byHand
	node.MayReenroll = false
	tx.OnCommit(func() {
		s.log().Info("identity revoked", "event", api.EventIdentityRevoked, "node", node.ID, "serial", id.Serial, "reason", why)
	})
	if err := tx.Nodes().Put(node.ID, node); err != nil {
		return err
	}
	return s.ended(tx, node.ID)
}

func (s *Service) ended(tx *store.Tx, nodeID string) error {
	s.afterCommit(tx, nodeID, s.Metrics.Revocation)
	if s.Gone == nil {
		return nil
	}
	return s.Gone(tx, nodeID)
}

// Reenroll lets an expected server redeem the join token once more, as after a
// rebuild in place; the identity that it has ends at once. What it was permitted
// ends with it, because a rebuilt server has lost its journal. Again changes nothing.
func (s *Service) Reenroll(ctx context.Context, nodeID string) error {
	return s.Store.Update(func(tx *store.Tx) error {
		tx.By(event.Caller(ctx))
		node, found, err := tx.Nodes().Get(nodeID)
		if err != nil {
			return err
		}
		if !found {
			return unknownNode(nodeID)
		}
		if !node.Expected {
			return api.NewProblem(api.ProblemConflict, fmt.Sprintf(
				"the topology of the VNF instance %s no longer names the server %s, so it cannot enroll: give a topology that names it", node.InstanceID, nodeID))
		}
		if node.Identity.Live() {
			if err := s.revoke(tx, node, "re-enrollment", true); err != nil {
				return err
			}
			if node, _, err = tx.Nodes().Get(nodeID); err != nil {
				return err
			}
		}
		node.MayReenroll = true
		tx.OnCommit(func() { s.log().Info("node may enroll again", "node", nodeID) })
		return tx.Nodes().Put(nodeID, node)
	})
}
