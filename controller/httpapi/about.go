package httpapi

import (
	"bytes"
	"context"

	"github.com/nodehitch/nodehitch/controller/notify"
	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/version"
)

// GetOpenapi serves the OpenAPI document.
func (s *Handler) GetOpenapi(context.Context, GetOpenapiRequestObject) (GetOpenapiResponseObject, error) {
	return GetOpenapi200ApplicationYamlResponse{Body: bytes.NewReader(wire.OpenAPI), ContentLength: int64(len(wire.OpenAPI))}, nil
}

// GetVersion says which build this is.
func (s *Handler) GetVersion(context.Context, GetVersionRequestObject) (GetVersionResponseObject, error) {
	return GetVersion200JSONResponse{Version: version.Version}, nil
}

// ListReplicas lists the controllers that share the store; with wait and an ETag, once the list is
// another one.
func (s *Handler) ListReplicas(ctx context.Context, r ListReplicasRequestObject) (ListReplicasResponseObject, error) {
	p := r.Params
	var next *string
	list, err := watch(ctx, s, notify.Replicas, p.Wait, p.IfNoneMatch, func() (items []wire.Replica, content any, err error) {
		all, err := s.Replicas.List(ctx)
		if err != nil {
			return nil, nil, err
		}
		if items, next, err = page(ctx, all, p.Limit, p.Marker, replicaKey); err != nil {
			return nil, nil, err
		}
		quiet := make([]wire.Replica, len(items))
		for i, each := range items {
			quiet[i] = each.Quiet()
		}
		return items, []any{quiet, next}, nil
	})
	if err != nil {
		return nil, err
	}
	list.etag = "W/" + list.etag // how far followers are behind is not in it
	if list.unchanged {
		return ListReplicas304Response{Headers: NotModifiedResponseHeaders{ETag: &list.etag}}, nil
	}
	return ListReplicas200JSONResponse{Body: wire.ReplicaList{Items: list.value}, Headers: ListReplicas200ResponseHeaders{ETag: &list.etag, Link: next}}, nil
}
