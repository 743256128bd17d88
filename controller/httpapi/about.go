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

// ListReplicas lists the controllers that share the store.
func (s *Handler) ListReplicas(ctx context.Context, r ListReplicasRequestObject) (ListReplicasResponseObject, error) {
	p := r.Params
	got, err := list(ctx, s, notify.Replicas, asked{p.Limit, p.Marker, p.Wait, p.IfNoneMatch}, replicaKey, wire.Replica.Quiet, func() ([]wire.Replica, error) { return s.Replicas.List(ctx) })
	if err != nil {
		return nil, err
	}
	if got.unchanged {
		return ListReplicas304Response{Headers: NotModifiedResponseHeaders{ETag: &got.etag}}, nil
	}
	return ListReplicas200JSONResponse{Body: wire.ReplicaList{Items: got.value.items}, Headers: ListReplicas200ResponseHeaders{ETag: &got.etag, Link: got.value.next}}, nil
}
