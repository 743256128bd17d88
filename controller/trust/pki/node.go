package pki

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	maxRequest = 16 << 10 // bytes of PEM; an RSA-8192 request needs 4 KiB
	minRSABits = 3072
	maxRSABits = 8192
)

// RequestError says what is wrong with a certificate request. It is the sender's
// fault and repeats nothing secret.
type RequestError struct{ Message string }

// Error is the message.
func (e *RequestError) Error() string { return e.Message }

// SignNode issues a client certificate for nodeID over the key of the request,
// whatever else the request asks for, and returns it in PEM (leaf, intermediate)
// with its serial number (32 hexadecimal digits). A request that proves no
// possession of its key, or whose key is weak, is a *RequestError.
func (a *Authority) SignNode(nodeID string, csrPEM []byte) (chainPEM, serial string, notAfter time.Time, err error) {
	request, err := parseRequest(csrPEM)
	if err != nil {
		return "", "", time.Time{}, err
	}
	uri, err := url.Parse(api.NodeURN + nodeID)
	if err != nil || nodeID == "" {
		return "", "", time.Time{}, fmt.Errorf("the node id %q cannot be part of a URN", nodeID)
	}
	template := newTemplate(a.now(), NodeLife, nodeID)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	template.URIs = []*url.URL{uri}
	a.mu.RLock()
	issuer := a.issuer()
	a.mu.RUnlock()
	cert, err := issue(template, request.PublicKey, issuer)
	if err != nil {
		return "", "", time.Time{}, err
	}
	var b strings.Builder
	for _, c := range []*x509.Certificate{cert, issuer.cert} {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: c.Raw}))
	}
	return b.String(), serialText(cert.SerialNumber), cert.NotAfter, nil
}

// RequestKeyHash is the SHA-256 (lower-case hexadecimal) of the public key
// (SubjectPublicKeyInfo) in a certificate request that SignNode would accept.
func RequestKeyHash(csrPEM []byte) (string, error) {
	request, err := parseRequest(csrPEM)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(request.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:]), nil
}

func parseRequest(csrPEM []byte) (*x509.CertificateRequest, error) {
	if len(csrPEM) > maxRequest {
		return nil, &RequestError{fmt.Sprintf("the certificate request has %d bytes, at most %d are read", len(csrPEM), maxRequest)}
	}
	block, rest := pem.Decode(csrPEM)
	if block == nil || block.Type != pemRequest || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, &RequestError{"expected one PEM block CERTIFICATE REQUEST and nothing else"}
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, &RequestError{"the certificate request is not PKCS #10: " + err.Error()}
	}
	if err := acceptKey(request.PublicKey); err != nil {
		return nil, err
	}
	if err := request.CheckSignature(); err != nil {
		return nil, &RequestError{"the certificate request is not signed with its own key"}
	}
	// CheckSignature still takes SHA-1 for requests. A collision is within reach, and
	// this signature is all the proof there is that the sender has the key.
	switch request.SignatureAlgorithm {
	case x509.SHA1WithRSA, x509.ECDSAWithSHA1:
		return nil, &RequestError{fmt.Sprintf("the certificate request is signed with %s, expected SHA-256 or better", request.SignatureAlgorithm)}
	}
	return request, nil
}

func acceptKey(public any) error {
	found := fmt.Sprintf("%T", public)
	switch key := public.(type) {
	case ed25519.PublicKey:
		return nil
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() || key.Curve == elliptic.P384() {
			return nil
		}
		found = "ECDSA " + key.Curve.Params().Name
	case *rsa.PublicKey:
		bits := key.N.BitLen()
		if minRSABits <= bits && bits <= maxRSABits {
			return nil
		}
		found = fmt.Sprintf("RSA with %d bits", bits)
	}
	return &RequestError{"the key is " + found + ", expected ECDSA P-256 or P-384, Ed25519, or RSA with 3072 to 8192 bits"}
}

// ErrExpired means that a certificate is ours and its time is over.
var ErrExpired = errors.New("the certificate has expired")

// VerifyNode tells whose certificate the peer presented (chain[0]; TLS has proven
// its key). Only our own intermediates count, never those that the peer sent. With
// graceForRenewal a certificate that ended up to RenewalGrace before now is
// verified as of its last moment; else its end is ErrExpired. Revocation is not
// checked.
func (a *Authority) VerifyNode(chain []*x509.Certificate, now time.Time, graceForRenewal bool) (nodeID, serial string, err error) {
	if len(chain) == 0 {
		return "", "", errors.New("no client certificate was presented")
	}
	leaf := chain[0]
	at := now
	if now.After(leaf.NotAfter) {
		if !graceForRenewal || now.After(leaf.NotAfter.Add(RenewalGrace)) {
			// Said after the chain is verified: an unauthenticated caller learns nothing.
			err = fmt.Errorf("%w on %s", ErrExpired, leaf.NotAfter.UTC().Format(time.RFC3339))
		}
		at = leaf.NotAfter
	}
	if now.Before(leaf.NotBefore) {
		err = fmt.Errorf("the certificate begins on %s, and the controller's clock says %s: one of the two is wrong, set the clock",
			leaf.NotBefore.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
		at = leaf.NotBefore
	}
	if verifyErr := a.verify(leaf, at); verifyErr != nil {
		return "", "", verifyErr
	}
	if err != nil {
		a.checkClock(now, leaf)
		return "", "", err
	}
	if nodeID = NodeNamed(leaf); nodeID == "" {
		return "", "", errors.New("the client certificate does not name a node")
	}
	return nodeID, serialText(leaf.SerialNumber), nil
}

// NodeNamed is the id of the node that a certificate names, which need not be one of this
// controller's; "" for none.
func NodeNamed(certificate *x509.Certificate) string {
	if len(certificate.URIs) != 1 {
		return ""
	}
	id, is := strings.CutPrefix(certificate.URIs[0].String(), api.NodeURN)
	if !is {
		return ""
	}
	return id
}

func (a *Authority) verify(leaf *x509.Certificate, at time.Time) error {
	a.mu.RLock()
	roots, intermediates, before := a.rootPool, a.intermediatePool, a.verified
	a.mu.RUnlock()
	if before.at(leaf, at) {
		return nil
	}
	chains, err := leaf.Verify(x509.VerifyOptions{
		Roots:         roots,
		Intermediates: intermediates,
		CurrentTime:   at,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return fmt.Errorf("the client certificate is not one of this controller's: %w", err)
	}
	before.add(leaf, windowOf(chains[0]))
	return nil
}
