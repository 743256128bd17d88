// Package filekind tells which kind of file a text is, so that a file that was given in the
// place of another is named.
package filekind

import (
	"bytes"

	"github.com/nodehitch/nodehitch/shared/strict"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// Kind is a kind of file, as a sentence names it.
type Kind string

// The kinds that are known, by the marks that they have.
const (
	Unknown    Kind = ""
	PEM        Kind = "a PEM file, such as a certificate or a key"
	Archive    Kind = "a zip archive, such as a CSAR"
	HOT        Kind = "a HOT template"
	TOSCA      Kind = "a TOSCA template, such as a VNFD"
	Kubeconfig Kind = "a kubeconfig"
	Manifest   Kind = "a manifest of Kubernetes"
	Context    Kind = "a context file of hitchctl"
	Request    Kind = "a request"
	Topology   Kind = "a topology"
)

// Of is the kind of a text.
func Of(text []byte) Kind {
	switch {
	case bytes.HasPrefix(bytes.TrimSpace(text), []byte("-----BEGIN ")):
		return PEM
	case bytes.HasPrefix(text, []byte("PK\x03\x04")), bytes.HasPrefix(text, []byte("PK\x05\x06")):
		return Archive
	}
	documents, err := strict.Documents(text)
	if err != nil || len(documents) == 0 {
		return Unknown
	}
	node, wrong := jsontree.Parse(documents[0])
	if wrong != nil || node.Kind != jsontree.Object {
		return Unknown
	}
	has := func(names ...string) bool {
		for _, name := range names {
			if node.Get(name) == nil {
				return false
			}
		}
		return true
	}
	switch {
	case has("heat_template_version"):
		return HOT
	case has("tosca_definitions_version"):
		return TOSCA
	case has("apiVersion", "clusters"):
		return Kubeconfig
	case has("apiVersion", "kind"):
		return Manifest
	case has("contexts"), has("server", "ca"), has("server", "caFile"), has("server", "token"), has("server", "tokenFile"):
		return Context
	case has("flavourId"), has("additionalParams"):
		return Request
	case has("servers"):
		return Topology
	}
	return Unknown
}
