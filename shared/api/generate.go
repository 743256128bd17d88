// Package api has what controller, agent and CLI say to each other: the
// OpenAPI document, the types generated from it, and the few facts about them
// that a schema cannot express (conditions and their reasons, filesystem UUIDs,
// the digest of a configuration).
package api

//go:generate go tool oapi-codegen -config types.cfg.yaml openapi.yaml
