package registries

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// cluster is a cluster VNF with two workers, whose registries the cases change.
type cluster struct {
	*vnf
	workers []*machine
}

const password = "pass-of-user01"

// The workers and the lab also have IPv6.
var (
	sixLab     = netip.MustParsePrefix("fd00:192:168::20/64")
	sixWorkers = []netip.Prefix{netip.MustParsePrefix("fd00:192:168::12/64"), netip.MustParsePrefix("fd00:192:168::13/64")}
)

func newCluster(t *testing.T) *cluster {
	t.Helper()
	w := newWorld(t)
	if err := w.Lab.AddAddress(t.Context(), sixLab); err != nil {
		t.Fatal(err)
	}
	v := w.newVNF(clusterBody)
	servers := []api.Server{
		v.Draw("worker", "workerNode_CP2", "", workerAddress.Addr()),
		v.Draw("worker", "workerNode_CP2", "", netip.MustParseAddr("192.168.0.13")),
	}
	v.connect()
	v.upload(scriptPath, []byte("#!/bin/sh\n"))
	v.upload(caPath, w.ca.PEM)
	v.put()
	machines := v.boot(
		v.spec(servers[0], lab.EngineInstalled, workerAddress, sixWorkers[0]),
		v.spec(servers[1], lab.EngineInstalled, netip.MustParsePrefix("192.168.0.13/24"), sixWorkers[1]),
	)
	v.operate(api.Instantiate)
	return &cluster{v, machines}
}

// plain is a connection to a registry with HTTP.
func plain(server string) map[string]any {
	return map[string]any{"connection_type": "0", "server": server}
}

// secure is one to a registry with TLS and a login, whose name /etc/hosts has to resolve.
func secure(server, password string) map[string]any {
	name, _, _ := strings.Cut(server, ":")
	return map[string]any{
		"connection_type": "1", "server": server, "username": "user01", "password": password,
		"certificate_path": caPath, "hosts_string": secureAddress.Addr().String() + " " + name,
	}
}

// connected connects the cluster to these registries and no others, and waits until all
// workers are connected.
func (c *cluster) connected(connections ...map[string]any) {
	c.T.Helper()
	c.connect(connections...)
	c.put()
	reason := api.ReasonConnected
	if len(connections) == 0 {
		reason = api.ReasonRemoved
	}
	for _, m := range c.workers {
		m.Says(api.ConditionRegistriesConnected, reason)
	}
}

// refused connects the cluster to them and waits until the first worker reports this
// reason. It returns the message, which must not have the password.
func (c *cluster) refused(reason api.Reason, connections ...map[string]any) string {
	c.T.Helper()
	c.connect(connections...)
	c.put()
	message := c.workers[0].Says(api.ConditionRegistriesConnected, reason)
	for _, connection := range connections {
		if secret, _ := connection["password"].(string); secret != "" && strings.Contains(message, secret) {
			c.T.Errorf("the message holds the password: %s", message)
		}
	}
	return message
}

// crossed pushes to the server from each worker and pulls on the other.
func (c *cluster) crossed(server string) {
	c.T.Helper()
	c.workers[1].pulls(c.workers[0].pushNew(server))
	c.workers[0].pulls(c.workers[1].pushNew(server))
}

// serve starts a registry with TLS, and the login of user01, at the address that
// registry.example.com has in these tests.
func (c *cluster) serve(port, password string, notAfter time.Time) *registry.Registry {
	c.T.Helper()
	pair := c.ca.Issue(c.T, notAfter, secureServer)
	return registry.Open(c.T, c.Lab, registry.Options{
		Address: secureAddress.Addr().String() + ":" + port, TLS: &pair, Users: map[string]string{"user01": password},
	})
}

// TestConnections are the cases of a cluster's connections, one after the other on the
// same machines: each leaves what the next one has to clean up.
func TestConnections(t *testing.T) {
	var c *cluster
	if results.Full() {
		c = newCluster(t)
	}
	for _, test := range []struct {
		name, shows string
		run         func(*cluster, *results.Case)
	}{
		{"wrong-ca", "with a wrong CA the node reports CertificateRejected; with the right one it connects", (*cluster).wrongCA},
		{"wrong-password", "with a wrong password the node reports Unauthorized with the registry's answer, and writes no login; with the right one it connects", (*cluster).wrongPassword},
		{"expired-ca", "with an expired CA the node reports CertificateRejected and the expiry; with a new one it connects", (*cluster).expiredCA},
		{"down", "a registry that is down is reported as Unreachable; when it is up the node connects", (*cluster).down},
		{"twenty", "20 registries at once, then none: no file of them is left", (*cluster).twenty},
		{"port", "a server with a port, TLS and a login", (*cluster).port},
		{"ipv6", "an IPv6 literal as server", (*cluster).ipv6},
		{"unicode", "Unicode and punctuation in a password", (*cluster).unicode},
		{"owner", "what the node's owner had in the same files stays, byte by byte, when a registry comes and goes", (*cluster).owner},
		{"rotated", "every node gets a changed password and a changed CA, and verifies them", (*cluster).rotated},
		{"running-containers", "containers keep running while a registry is added to Docker and containerd", (*cluster).runningContainers},
		{"secrets", "a password is in three files of root on the node, and nowhere else: no log, status, API answer or store", (*cluster).secrets},
		{"token", "a registry that hands out tokens instead of asking for the password itself", (*cluster).token},
		{"containerd-store", "Docker whose images containerd stores pulls with HTTP, and with TLS and a login; a token service that it does not trust is reported", (*cluster).containerdStore},
		{"scale-out", "a worker of a scale-out is connected", (*cluster).scaleOut},
		{"heal", "a new worker in place of another is connected", (*cluster).heal},
		{"killed", "the agent, killed at the start and the end of every action, converges", (*cluster).killed},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := results.Begin(t, suite, test.name, test.shows)
			results.LongOnly(t)
			defer c.During(t)()
			test.run(c, r)
		})
	}
}
