// Package client talks to a controller: the generated HTTP client, the trust in
// the pinned root, and problem details turned into Go errors.
package client

//go:generate go tool oapi-codegen -config client.cfg.yaml ../api/openapi.yaml
