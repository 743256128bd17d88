package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// machine speaks the southbound API as a VM's agent does, and claims what a
// script says. The real one would need a VM; e2e has it.
type machine struct {
	serverID string
	conn     *client.Controller
}

// enrol redeems the join token for the server.
func enrol(ctx context.Context, trust api.Trust, joinToken, serverID string) (*machine, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, err
	}
	m := &machine{serverID: serverID}
	var identity tls.Certificate
	m.conn, err = client.New(client.Options{
		BaseURL: trust.Urls[0], RootPEM: []byte(trust.RootCertificate), Pin: trust.Pin, Timeout: 10 * time.Second,
		Certificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &identity, nil },
	})
	if err != nil {
		return nil, err
	}
	issued, err := client.Read[api.IssuedCertificate](m.conn.Enroll(ctx, api.EnrollRequest{
		ServerID:           serverID,
		CertificateRequest: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})),
	}, client.Bearer(joinToken)))
	if err != nil {
		return nil, err
	}
	identity.PrivateKey = key
	for rest := []byte(issued.Certificate); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		identity.Certificate = append(identity.Certificate, block.Bytes)
	}
	m.conn.CloseIdle()
	return m, nil
}

// report tells the controller of conditions, each Type=Status:Reason:message, or
// doing=Condition:summary.
func (m *machine) report(ctx context.Context, claims []string) error {
	config, err := client.Read[api.NodeConfig](m.conn.GetNodeConfig(ctx, nil))
	if err != nil {
		return err
	}
	status := api.NodeStatus{
		Epoch: config.Epoch, ObservedGeneration: config.Generation, ObservedDigest: config.Digest(),
		Conditions: []api.Condition{}, Facts: api.Facts{AgentVersion: "v1.2.3", OperatingSystem: "Debian GNU/Linux 12", Architecture: "amd64"},
	}
	for _, claim := range claims {
		name, rest, _ := strings.Cut(claim, "=")
		parts := strings.SplitN(rest, ":", 3)
		if name == "doing" {
			status.Activity = &api.Activity{Condition: parts[0], Summary: parts[1], StartedAt: time.Now()}
			continue
		}
		if len(parts) < 2 {
			return fmt.Errorf("claim %q", claim)
		}
		c := api.Condition{Type: name, Status: api.ConditionStatus(parts[0]), Reason: parts[1], LastTransitionTime: time.Now(), ObservedGeneration: config.Generation}
		if len(parts) == 3 {
			c.Message = parts[2]
		}
		if name == api.ConditionReady && c.Status == api.ConditionTrue {
			status.AppliedGeneration, status.AppliedDigest = status.ObservedGeneration, status.ObservedDigest
		}
		status.Conditions = append(status.Conditions, c)
	}
	return client.Done(m.conn.PutNodeStatus(ctx, status))
}
