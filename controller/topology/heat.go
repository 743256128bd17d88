package topology

import (
	"context"

	"github.com/nodehitch/nodehitch/controller/openstack"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Heat is the Source that reads the topology of a stack from its cloud.
type Heat struct {
	Clouds *openstack.Clouds
}

// Resolve looks into the stack.
func (h Heat) Resolve(ctx context.Context, r Request) (*api.Topology, error) {
	return Inline{}.Resolve(ctx, r)
}
