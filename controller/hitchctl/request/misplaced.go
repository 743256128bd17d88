package request

import (
	"github.com/nodehitch/nodehitch/controller/hitchctl/filekind"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// What a file is for.
const (
	expectedRequest  = "expected a request: the body of Tacker's InstantiateVnfRequest, or an object with additionalParams"
	expectedTopology = "expected a topology: an object with servers"
)

// misplaced says which other file the text is, if it has the mark of one.
func misplaced(text []byte, wanted filekind.Kind, expected string) fault.List {
	kind := filekind.Of(text)
	what := string(kind)
	switch kind {
	case filekind.Unknown, wanted:
		return nil
	case filekind.Topology:
		what += ", which --topology takes"
	case filekind.Request:
		what += ", which -f takes"
	case filekind.Archive:
		what += ", which --package takes"
	}
	return fault.List{fault.Root.Fault("is " + what + "; " + expected)}
}
