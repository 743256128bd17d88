package enroll

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"

	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// ErrNoToken says that the machine has neither a certificate nor a join token.
var ErrNoToken = errors.New("this machine has no certificate, and its configuration has no joinToken to get one; " +
	"put the instance's (`hitchctl get join-token`) into /etc/nodehitch/agent.yaml and restart nodehitch-agent")

// ErrTokenRefused says that the controller does not know the machine's join token.
var ErrTokenRefused = errors.New("the controller does not know the join token of this machine: its VNF instance was deleted, or the token is of another instance or controller; " +
	"put the instance's (`hitchctl get join-token`) into /etc/nodehitch/agent.yaml and restart nodehitch-agent")

// Claim is what an agent claims when it enrolls.
type Claim struct {
	// Token is the join token, id.secret.
	Token    string
	ServerID string
	Facts    api.Facts
	// Nonce is the metadata service's, "" until the controller requires it.
	Nonce string
}

// Enroll redeems the join token. Errors are those of the link. It can be repeated at any
// time and then uses the same key.
func Enroll(ctx context.Context, l *link.Link, f Files, c Claim) (*Credentials, error) {
	if c.Token == "" {
		return nil, ErrNoToken
	}
	key, request, err := f.request()
	if err != nil {
		return nil, err
	}
	var issued *api.IssuedCertificate
	err = l.Short(ctx, func(ctx context.Context, controller *client.Controller) (err error) {
		issued, err = client.Read[api.IssuedCertificate](controller.Enroll(ctx, api.EnrollRequest{
			CertificateRequest: request, ServerID: c.ServerID, Facts: &c.Facts, Nonce: c.Nonce,
		}, client.Bearer(c.Token)))
		return err
	})
	if client.Status(err) == http.StatusUnauthorized {
		return nil, fmt.Errorf("%w: %w", err, ErrTokenRefused)
	}
	if err != nil {
		return nil, err
	}
	if issued.NodeID != c.ServerID {
		return nil, fmt.Errorf("the controller issued a certificate for node %q, expected %s", issued.NodeID, c.ServerID)
	}
	if err := f.Drop(); err != nil {
		return nil, err
	}
	return f.save(CurrentFile, key, issued.Certificate)
}

// NonceRequired reports whether an enrollment was refused because it needs the metadata
// service's nonce.
func NonceRequired(err error) bool {
	var problem *api.Problem
	return errors.As(err, &problem) && problem.Type == api.ProblemNonceRequired
}

// Renew requests a certificate for a new key over a link with the present certificate.
// The new credentials are stored beside those in use until Files.Adopt.
func Renew(ctx context.Context, l *link.Link, f Files) (*Credentials, error) {
	key, request, err := f.request()
	if err != nil {
		return nil, err
	}
	var issued *api.IssuedCertificate
	err = l.Short(ctx, func(ctx context.Context, controller *client.Controller) (err error) {
		issued, err = client.Read[api.IssuedCertificate](controller.RenewCertificate(ctx, api.CertificateRequest{CertificateRequest: request}))
		return err
	})
	if err != nil {
		return nil, err
	}
	return f.save(nextFile, key, issued.Certificate)
}

// request returns a PKCS#10 request for the new key. Its subject is empty, because the
// controller would ignore it.
func (f Files) request() (crypto.Signer, string, error) {
	key, err := f.key()
	if err != nil {
		return nil, "", fmt.Errorf("making a key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, "", fmt.Errorf("making a certificate request: %w", err)
	}
	return key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), nil
}
