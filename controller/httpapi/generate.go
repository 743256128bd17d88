// Package httpapi serves the controller's HTTP API: the generated routes, the
// authentication that each route asks for, and problem details.
package httpapi

//go:generate go tool oapi-codegen -config server.cfg.yaml ../../shared/api/openapi.yaml
