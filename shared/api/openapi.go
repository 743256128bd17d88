package api

import _ "embed" // of the document

// OpenAPI is the document that the types and the calls are generated from.
//
//go:embed openapi.yaml
var OpenAPI []byte
