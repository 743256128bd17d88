package api

import (
	"context"

	wire "github.com/nodehitch/nodehitch/shared/api"
)

// Replicas are the controllers that share the store.
type Replicas interface {
	// List is those that are alive, ordered by their ids; none of a store of this controller's own.
	List(ctx context.Context) ([]wire.Replica, error)
}
