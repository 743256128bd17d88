package enroll

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// ErrNoToken says that the machine has neither a certificate nor a join token.
var ErrNoToken = errors.New("this machine has no certificate, and its configuration no joinToken to get one with; " +
	"put the instance's (`hitchctl join-token show`) into /etc/nodehitch/agent.yaml and restart nodehitch-agent")

// Claim is what an agent says of itself when it enrolls.
type Claim struct {
	// Token is the join token, id.secret.
	Token    string
	ServerID string
	Facts    api.Facts
	// Nonce is what the metadata service shows, "" until the controller asks for it.
	Nonce string
}

// Enroll redeems the join token, once. Errors are those of the link; it can be
// tried again at any time, with the same key.
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
	if err != nil {
		return nil, err
	}
	if issued.NodeID != c.ServerID {
		return nil, fmt.Errorf("the controller issued a certificate for node %q, expected %s", issued.NodeID, c.ServerID)
	}
	if err := f.Drop(); err != nil {
		return nil, err
	}
	return f.save(currentFile, key, issued.Certificate)
}

// NonceRequired says that an enrollment was refused until it comes with the nonce that
// the metadata service shows.
func NonceRequired(err error) bool {
	var problem *api.Problem
	return errors.As(err, &problem) && problem.Type == api.ProblemNonceRequired
}

// Renew asks for a certificate over a new key, by proof of the present one, which
// the link has to carry. What it returns is kept beside the credentials in use
// until Files.Adopt.
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

// request is a PKCS#10 request over the new key. It names nobody: the controller
// would not believe it.
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
