package enrollment

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// After a restore the store has forgotten what happened since the backup: whose
// identity was revoked, and who got which certificate. So no node of a restored
// instance is accepted, by a certificate or by the join token, before an operator has
// confirmed the instance.

// confirmed reports whether the node was enrolled or confirmed in this epoch.
func (s *Service) confirmed(node store.Node) bool { return node.Epoch == s.Store.Epoch() }

// unconfirmed is the answer to the nodes of an instance that no operator confirmed.
// It is no refusal of their identity, upon which they would try to enroll anew.
func (s *Service) unconfirmed(node store.Node) error {
	return api.NewProblem(api.ProblemRestoreUnconfirmed, fmt.Sprintf(
		"the controller's state was %s; the server %s is accepted again once an operator confirms its VNF instance: POST /v1/vnf_instances/%s/confirm",
		s.Store.Origin(), node.ID, node.InstanceID)).With(api.Action{Call: api.CallConfirmInstance, ID: node.InstanceID})
}

func isUnconfirmed(err error) bool {
	var problem *api.Problem
	return errors.As(err, &problem) && problem.Type == api.ProblemRestoreUnconfirmed
}

// learn takes note of a certificate that this controller has issued since the
// backup, which the restored store does not know. The certificate of a node that was issued
// last is the one in force, so it replaces the one on record. Otherwise every node that has
// renewed since the backup would be refused after its instance is confirmed, and a machine
// with the join token could take its place. No machine is accepted by it before that.
func (s *Service) learn(node store.Node, serial string, cert *x509.Certificate) error {
	if !unknown(node, serial, cert) {
		return nil
	}
	return s.Store.Update(func(tx *store.Tx) error {
		node, found, err := tx.Nodes().Get(node.ID)
		if err != nil || !found || s.confirmed(node) || !unknown(node, serial, cert) {
			return err
		}
		keyHash := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
		identity := &store.Identity{Serial: serial, KeyHash: hex.EncodeToString(keyHash[:]), NotAfter: cert.NotAfter, EnrolledAt: s.now()}
		if node.Identity != nil {
			identity.EnrolledAt, identity.Attestation = node.Identity.EnrolledAt, node.Identity.Attestation
		}
		node.Identity = identity
		tx.OnCommit(func() {
			s.log().Info("a node called with a certificate that was issued after the backup", "node", node.ID, "instance", node.InstanceID, "serial", serial)
		})
		return tx.Nodes().Put(node.ID, node)
	})
}

// unknown reports whether the certificate is a later one than any on record. An
// identity that was revoked is not replaced.
func unknown(node store.Node, serial string, cert *x509.Certificate) bool {
	id := node.Identity
	switch {
	case id == nil:
		return node.Expected
	case !id.Live(), serial == id.Serial, serial == id.PreviousSerial:
		return false
	}
	return cert.NotAfter.After(id.NotAfter)
}
