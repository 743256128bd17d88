package controllerfault

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// machine is a node as the controller knows it: what its agent sends, in the order
// of the test.
type machine struct {
	r      *rig
	server string
	key    *ecdsa.PrivateKey
	// next is the key of a renewal that was not answered yet.
	next  *ecdsa.PrivateKey
	chain []byte
	api   *client.Controller
	// permit is that of the format under way.
	permit string
}

func (r *rig) machine(server string) *machine {
	r.t.Helper()
	m := &machine{r: r, server: server, key: r.newKey()}
	trust := r.c.Trust()
	var err error
	m.api, err = client.New(client.Options{BaseURL: r.c.URL, RootPEM: []byte(trust.RootCertificate), Pin: trust.Pin, Timeout: 10 * time.Second,
		Certificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return m.certificate() }})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(m.api.CloseIdle)
	return m
}

func (r *rig) newKey() *ecdsa.PrivateKey {
	r.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		r.t.Fatal(err)
	}
	return key
}

func (m *machine) certificate() (*tls.Certificate, error) {
	if m.chain == nil {
		return new(tls.Certificate), nil
	}
	der, err := x509.MarshalPKCS8PrivateKey(m.key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(m.chain, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	return &pair, err
}

func (m *machine) request(key *ecdsa.PrivateKey) string {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		m.r.t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// enrol sends the same key however often it is asked again.
func (m *machine) enrol(joinToken string) error {
	m.chain = nil
	m.api.CloseIdle()
	issued, err := client.Read[api.IssuedCertificate](m.api.Enroll(m.r.t.Context(),
		api.EnrollRequest{ServerID: m.server, CertificateRequest: m.request(m.key)}, client.Bearer(joinToken)))
	if err != nil {
		return err
	}
	m.chain = []byte(issued.Certificate)
	m.api.CloseIdle()
	return nil
}

// renew keeps the new key until the answer comes, and the old certificate until then.
func (m *machine) renew() error {
	if m.next == nil {
		m.next = m.r.newKey()
	}
	issued, err := client.Read[api.IssuedCertificate](m.api.RenewCertificate(m.r.t.Context(), api.CertificateRequest{CertificateRequest: m.request(m.next)}))
	if err != nil {
		return err
	}
	m.key, m.next, m.chain = m.next, nil, []byte(issued.Certificate)
	m.api.CloseIdle()
	return nil
}

func (m *machine) config() (*api.NodeConfig, error) {
	return client.Read[api.NodeConfig](m.api.GetNodeConfig(m.r.t.Context(), nil))
}

// opens: its certificate is let in.
func (m *machine) opens() error {
	_, err := m.config()
	return err
}

// frozen is the machine as it is now, for good: an old copy of its disk.
func (m *machine) frozen() *machine {
	old := m.r.machine(m.server)
	old.key, old.chain = m.key, m.chain
	return old
}

// opensNothing: its certificate is not let in.
func (m *machine) opensNothing() error {
	_, err := m.config()
	return notLetIn(err)
}

// notLetIn wants the answer to be a refusal.
func notLetIn(err error) error {
	switch status := client.Status(err); {
	case err == nil:
		return errLetIn
	case status == http.StatusForbidden, status == http.StatusUnauthorized:
		return nil
	}
	return unexpected(err)
}

// unexpected is an answer, nil for a good one, that should have been another.
func unexpected(answer error) error { return fmt.Errorf("it was answered with %s", fmt.Sprint(answer)) }

// report says that the machine is what its present document asks for, and returns
// what it said.
func (m *machine) report() (api.NodeStatus, error) {
	config, err := m.config()
	if err != nil {
		return api.NodeStatus{}, err
	}
	s := api.NodeStatus{Epoch: config.Epoch, ObservedGeneration: config.Generation, ObservedDigest: config.Digest(),
		AppliedGeneration: config.Generation, AppliedDigest: config.Digest()}
	for _, each := range append([]string{api.ConditionReady}, config.ConditionTypes()...) {
		s.Conditions = append(s.Conditions, api.Condition{Type: each, Status: api.ConditionTrue, Reason: api.ReasonReady, LastTransitionTime: time.Now()})
	}
	return s, client.Done(m.api.PutNodeStatus(m.r.t.Context(), s))
}

// format is one message about the volume, in the words of its present document.
func (m *machine) format(phase api.FormatPhase, proof *api.BlankProof) error {
	config, err := m.config()
	if err != nil {
		return err
	}
	if config.Storage == nil || len(config.Storage.Volumes) != 1 {
		return fmt.Errorf("the document names no volume: %+v", config)
	}
	v := config.Storage.Volumes[0]
	r := api.FormatReport{Phase: phase, SizeBytes: v.SizeBytes, FilesystemUUID: v.FilesystemUUID, Proof: proof}
	if phase != api.FormatWanted {
		r.Permit = m.permit
	}
	answer, err := client.Read[api.FormatPermit](m.api.PostFormat(m.r.t.Context(), v.VolumeID, r))
	if err == nil {
		m.permit = answer.Permit
	}
	return err
}
