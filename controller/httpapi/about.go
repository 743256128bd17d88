package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/recentlog"
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

// GetDiagnostics says what the controller knows of itself.
func (s *Handler) GetDiagnostics(context.Context, GetDiagnosticsRequestObject) (GetDiagnosticsResponseObject, error) {
	settings, err := json.Marshal(s.Settings)
	if err != nil {
		return nil, fmt.Errorf("encoding the settings: %w", err)
	}
	metrics, err := s.Metrics.Text()
	if err != nil {
		return nil, err
	}
	log, dropped := recentlog.Of(s.Log)
	return GetDiagnostics200JSONResponse{Settings: settings, Metrics: metrics, Log: append([]string{}, log...), LogDropped: dropped}, nil
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
