package loopback

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"net"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// Machine is a node whose agent is the test: it sends what the test wants, with its own
// key and certificate. Each call has a connection of its own, so that
// a copy of a Machine is another machine with a copy of its disk.
type Machine struct {
	ServerID string
	Key      *ecdsa.PrivateKey
	// Identity is the certificate that was issued last; the zero value before the first.
	Identity tls.Certificate
	// Controller is where it calls, and Trust what its user_data says of that.
	Controller string
	Trust      *api.Trust
	// Agent is what it says of its agent with each poll; nil for nothing, as the first release.
	Agent *api.Agent
	// Dial connects; nil connects from any address.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// next is the key of a renewal that was not answered yet.
	next *ecdsa.PrivateKey
}

// Machine is one that has only user_data.
func (c *Controller) Machine(serverID string) *Machine {
	c.t.Helper()
	return &Machine{ServerID: serverID, Key: testca.NewKey(), Controller: c.URL, Trust: c.Trust()}
}

// call makes one call with the certificate that the machine has.
func call[T any](m *Machine, read func(*client.Controller) (*T, error)) (*T, error) {
	identity := m.Identity
	c, err := client.New(client.Options{BaseURL: m.Controller, RootPEM: []byte(m.Trust.RootCertificate), Pin: m.Trust.Pin, Timeout: 20 * time.Second,
		Dial: m.Dial, Certificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &identity, nil }})
	if err != nil {
		return nil, err
	}
	defer c.CloseIdle()
	return read(c)
}

// Enroll redeems a join token, with the same key however often it is asked.
func (m *Machine) Enroll(ctx context.Context, joinToken string) error {
	issued, err := call(m, func(c *client.Controller) (*api.IssuedCertificate, error) {
		return client.Read[api.IssuedCertificate](c.Enroll(ctx,
			api.EnrollRequest{ServerID: m.ServerID, CertificateRequest: testca.Request(m.Key, nil)}, client.Bearer(joinToken)))
	})
	if err == nil {
		m.Identity, err = testca.Identity(issued.Certificate, m.Key)
	}
	return err
}

// Renew renews the certificate with a new key, which it keeps until it is answered. Until
// then it has the old certificate.
func (m *Machine) Renew(ctx context.Context) error {
	if m.next == nil {
		m.next = testca.NewKey()
	}
	issued, err := call(m, func(c *client.Controller) (*api.IssuedCertificate, error) {
		return client.Read[api.IssuedCertificate](c.RenewCertificate(ctx, api.CertificateRequest{CertificateRequest: testca.Request(m.next, nil)}))
	})
	if err != nil {
		return err
	}
	m.Key, m.next = m.next, nil
	m.Identity, err = testca.Identity(issued.Certificate, m.Key)
	return err
}

// Config is its document.
func (m *Machine) Config(ctx context.Context) (*api.NodeConfig, error) {
	params := &api.GetNodeConfigParams{}
	if m.Agent != nil {
		header := m.Agent.Header()
		params.NodehitchAgent = &header
	}
	return call(m, func(c *client.Controller) (*api.NodeConfig, error) {
		return client.Read[api.NodeConfig](c.GetNodeConfig(ctx, params))
	})
}

// Report sends a status.
func (m *Machine) Report(ctx context.Context, s api.NodeStatus) error {
	_, err := call(m, func(c *client.Controller) (*struct{}, error) { return nil, client.Done(c.PutNodeStatus(ctx, s)) })
	return err
}

// Converge reports that the machine is what its present document asks for, and returns
// what it said.
func (m *Machine) Converge(ctx context.Context) (api.NodeStatus, error) {
	config, err := m.Config(ctx)
	if err != nil {
		return api.NodeStatus{}, err
	}
	s := Converged(*config)
	return s, m.Report(ctx, s)
}

// Converged is the status of a machine that is what the document asks for.
func Converged(config api.NodeConfig) api.NodeStatus {
	s := api.NodeStatus{Epoch: config.Epoch, ObservedGeneration: config.Generation, ObservedDigest: config.Digest(),
		AppliedGeneration: config.Generation, AppliedDigest: config.Digest()}
	for _, each := range append([]string{api.ConditionReady}, config.ConditionTypes()...) {
		s.Conditions = append(s.Conditions, api.Condition{Type: each, Status: api.ConditionTrue, Reason: api.ReasonReady, LastTransitionTime: time.Now()})
	}
	return s
}

// Format is one message about a volume.
func (m *Machine) Format(ctx context.Context, volume string, r api.FormatReport) (*api.FormatPermit, error) {
	return call(m, func(c *client.Controller) (*api.FormatPermit, error) {
		return client.Read[api.FormatPermit](c.PostFormat(ctx, volume, r))
	})
}

// ReportText sends a status as this text, whatever it is.
func (m *Machine) ReportText(ctx context.Context, text []byte) error {
	_, err := call(m, func(c *client.Controller) (*struct{}, error) {
		return nil, client.Done(c.PutNodeStatusWithBody(ctx, "application/json", bytes.NewReader(text)))
	})
	return err
}
