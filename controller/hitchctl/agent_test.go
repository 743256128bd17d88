package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// machine speaks the southbound API as a VM's agent does, and claims what a
// script says. The real one would need a VM; e2e has it.
type machine struct {
	serverID string
	conn     *client.Controller
}

// enroll redeems the join token for the server.
func enroll(ctx context.Context, trust api.Trust, joinToken, serverID string) (*machine, error) {
	m, key := &machine{serverID: serverID}, testca.NewKey()
	var identity tls.Certificate
	var err error
	m.conn, err = client.New(client.Options{
		BaseURL: trust.Urls[0], RootPEM: []byte(trust.RootCertificate), Pin: trust.Pin, Timeout: 10 * time.Second,
		Certificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &identity, nil },
	})
	if err != nil {
		return nil, err
	}
	issued, err := client.Read[api.IssuedCertificate](m.conn.Enroll(ctx, api.EnrollRequest{
		ServerID: serverID, CertificateRequest: testca.Request(key, nil),
	}, client.Bearer(joinToken)))
	if err != nil {
		return nil, err
	}
	m.conn.CloseIdle()
	identity, err = testca.Identity(issued.Certificate, key)
	return m, err
}

// config is what the controller wants of the machine.
func (m *machine) config(ctx context.Context) (*api.NodeConfig, error) {
	this := api.ThisAgent("v1.2.3")
	this.Architecture = "amd64"
	header := this.Header()
	return client.Read[api.NodeConfig](m.conn.GetNodeConfig(ctx, &api.GetNodeConfigParams{NodehitchAgent: &header}))
}

// report tells the controller of conditions, each Type=Status:Reason:message, or
// doing=Condition:summary, or upgrade=Reason:version:message, or cluster=token. With Ready=True,
// the conditions of the document that the script does not name are True as well: a script names
// those that it is about.
func (m *machine) report(ctx context.Context, claims []string) error {
	config, err := m.config(ctx)
	if err != nil {
		return err
	}
	status := api.NodeStatus{
		Epoch: config.Epoch, ObservedGeneration: config.Generation, ObservedDigest: config.Digest(),
		Conditions: []api.Condition{}, Facts: api.Facts{AgentVersion: "v1.2.3", OSImage: "Debian GNU/Linux 12", Architecture: "amd64"},
	}
	for _, claim := range claims {
		name, rest, _ := strings.Cut(claim, "=")
		parts := strings.SplitN(rest, ":", 3)
		if name == "doing" {
			status.Activity = &api.Activity{Condition: parts[0], Summary: parts[1], StartedAt: time.Now()}
			continue
		}
		if name == "upgrade" {
			status.AgentUpgrade = &api.AgentUpgrade{ManagedBy: api.ManagedByController, Reason: parts[0], Version: parts[1], Message: parts[2]}
			if parts[0] == api.UpgradeRolledBack {
				status.AgentUpgrade.Refused = []api.RefusedAgent{{Version: parts[1], Sha256: strings.Repeat("ab", 32), At: time.Now()}}
			}
			continue
		}
		if name == "cluster" {
			expires := time.Now().Add(24*time.Hour + time.Minute)
			status.Cluster = &api.ClusterFacts{CACertificateHash: "sha256:" + strings.Repeat("ab", 32), CACertificate: "the CA's certificate", Token: rest, TokenExpiresAt: &expires}
			continue
		}
		if len(parts) < 2 {
			return fmt.Errorf("claim %q", claim)
		}
		c := api.Condition{Type: name, Status: api.ConditionStatus(parts[0]), Reason: parts[1], LastTransitionTime: time.Now(), ObservedGeneration: config.Generation}
		if len(parts) == 3 {
			c.Message = parts[2]
		}
		status.Conditions = append(status.Conditions, c)
	}
	if ready := status.Condition(api.ConditionReady); ready != nil && ready.Status == api.ConditionTrue {
		status.AppliedGeneration, status.AppliedDigest = status.ObservedGeneration, status.ObservedDigest
		for _, name := range config.ConditionTypes() {
			if status.Condition(name) == nil {
				c := *status.Condition(api.ConditionReady)
				c.Type = name
				status.Conditions = append(status.Conditions, c)
			}
		}
	}
	return client.Done(m.conn.PutNodeStatus(ctx, status))
}
