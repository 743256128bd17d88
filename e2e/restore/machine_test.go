package restore

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// machine is a VM of its own mind: it says what the test wants, with the key and the
// certificate that it has.
type machine struct {
	w     *world
	id    string
	key   *ecdsa.PrivateKey
	cert  tls.Certificate
	token string
}

// boot is a machine that has only user_data.
func (w *world) boot(id string) *machine {
	w.t.Helper()
	m := &machine{w: w, id: id, token: w.JoinToken(instance)}
	m.newKey()
	return m
}

// enrolled is a machine with an identity.
func (w *world) enrolled(id string) *machine {
	w.t.Helper()
	m := w.boot(id)
	w.must(m.enrol())
	return m
}

func (m *machine) newKey() {
	var err error
	m.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	m.w.must(err)
}

func (m *machine) request() string {
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, m.key)
	m.w.must(err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}))
}

// line is a new connection with the certificate that the machine has.
func (m *machine) line() *client.Controller {
	trust := m.w.Trust()
	cert := m.cert
	c, err := client.New(client.Options{BaseURL: m.w.URL, RootPEM: []byte(trust.RootCertificate), Pin: trust.Pin, Timeout: 20 * time.Second,
		Certificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }})
	m.w.must(err)
	return c
}

// do makes one call on a connection of its own.
func (m *machine) do(call func(context.Context, *client.Controller) error) error {
	c := m.line()
	defer c.CloseIdle()
	return call(m.w.t.Context(), c)
}

func (m *machine) enrol() error {
	return m.do(func(ctx context.Context, c *client.Controller) error {
		issued, err := client.Read[api.IssuedCertificate](c.Enroll(ctx, api.EnrollRequest{ServerID: m.id, CertificateRequest: m.request()}, client.Bearer(m.token)))
		return m.take(issued, err)
	})
}

// renew renews with a new key; a refusal leaves the machine what it has.
func (m *machine) renew() error {
	before := m.key
	return m.do(func(ctx context.Context, c *client.Controller) error {
		m.newKey()
		issued, err := client.Read[api.IssuedCertificate](c.RenewCertificate(ctx, api.CertificateRequest{CertificateRequest: m.request()}))
		if err != nil {
			m.key = before
		}
		return m.take(issued, err)
	})
}

// later waits for the next second, for a certificate does not tell parts of one.
func later(t testing.TB) {
	t.Helper()
	now := time.Now().Unix()
	loopback.Until(t, "the next second", func() bool { return time.Now().Unix() > now })
}

func (m *machine) take(issued *api.IssuedCertificate, err error) error {
	if err != nil {
		return err
	}
	m.cert = tls.Certificate{PrivateKey: m.key}
	for rest := []byte(issued.Certificate); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil
		}
		m.cert.Certificate = append(m.cert.Certificate, block.Bytes)
	}
}

// copy is somebody else with the same key and certificate.
func (m *machine) copy() *machine { thief := *m; return &thief }

func (m *machine) config() (config *api.NodeConfig, err error) {
	err = m.do(func(ctx context.Context, c *client.Controller) error {
		config, err = client.Read[api.NodeConfig](c.GetNodeConfig(ctx, nil))
		return err
	})
	return config, err
}

// asks is whether the machine is let in.
func (m *machine) asks() error {
	_, err := m.config()
	return err
}

// converged reports that the machine is what its document wants.
func (m *machine) converged() error {
	config, err := m.config()
	if err != nil {
		return err
	}
	return m.report(m.status(*config))
}

func (m *machine) status(config api.NodeConfig) api.NodeStatus {
	s := api.NodeStatus{Epoch: config.Epoch, ObservedGeneration: config.Generation, ObservedDigest: config.Digest(),
		AppliedGeneration: config.Generation, AppliedDigest: config.Digest()}
	for _, condition := range append(config.ConditionTypes(), api.ConditionReady) {
		s.Conditions = append(s.Conditions, api.Condition{Type: condition, Status: api.ConditionTrue, Reason: api.ReasonMounted, LastTransitionTime: time.Now()})
	}
	return s
}

func (m *machine) report(s api.NodeStatus) error {
	return m.do(func(ctx context.Context, c *client.Controller) error { return client.Done(c.PutNodeStatus(ctx, s)) })
}

// format is one message about the volume; wanted comes with the proof.
func (m *machine) format(phase api.FormatPhase, permit string) (*api.FormatPermit, error) {
	return m.formatOf(volume, phase, permit)
}

func (m *machine) formatOf(volume string, phase api.FormatPhase, permit string) (answer *api.FormatPermit, err error) {
	r := api.FormatReport{Phase: phase, Permit: permit, SizeBytes: size, FilesystemUUID: api.FilesystemUUID(volume)}
	if phase == api.FormatWanted {
		r.Proof = &api.BlankProof{BytesRead: size, Samples: 1024}
	}
	err = m.do(func(ctx context.Context, c *client.Controller) error {
		answer, err = client.Read[api.FormatPermit](c.PostFormat(ctx, volume, r))
		return err
	})
	return answer, err
}
