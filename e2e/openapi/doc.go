// Package openapi tests that others can make a client of openapi.yaml: an outside validator
// takes the document, and a program whose types an outside generator makes of it calls every
// operation of a real controller. Both come from npm, at the versions of client/package-lock.json.
package openapi
