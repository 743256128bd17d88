package api

import (
	"bytes"
	"context"

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
