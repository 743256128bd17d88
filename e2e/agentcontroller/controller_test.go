package agentcontroller

import (
	"testing"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

const (
	instance = "0b1a5c2e-7c53-4d86-9f0a-8f6f5b0c1d2e"
	server   = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f"
	volume   = "9a3e6c1e-1f7e-4d0e-8c55-0d8c1c6e2b11"
	size     = 1 << 30
)

func topology() *api.Topology { return loopback.StorageTopology(server, volume, size) }

// controller is the real one, with what this suite asks of it for its one server.
type controller struct {
	*loopback.Controller
	t *testing.T
}

func newController(t *testing.T) controller {
	t.Helper()
	return controller{loopback.Open(t, loopback.Options{}), t}
}

func (c controller) node() *api.Node { return c.Node(server) }

func (c controller) revoke() {
	c.t.Helper()
	if _, err := client.Read[api.Node](c.API.RevokeNode(c.t.Context(), server)); err != nil {
		c.t.Fatal(err)
	}
}

func (c controller) reenroll() {
	c.t.Helper()
	if _, err := client.Read[api.Node](c.API.ReenrollNode(c.t.Context(), server)); err != nil {
		c.t.Fatal(err)
	}
}
