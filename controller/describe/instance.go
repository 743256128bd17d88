package describe

import (
	"strings"

	"github.com/nodehitch/nodehitch/shared/api"
)

// StackSource says who told the status of a stack.
func StackSource(s api.StackObservation) string {
	if s.Source == api.ObservedInRequest {
		return "as a request said"
	}
	return "as Heat said"
}

// Server is what an operation may name a server by, besides its id; "" for nothing.
func Server(s api.Server) string {
	text := ""
	if s.VnfcInstanceID != "" {
		text += "  VNFC instance " + s.VnfcInstanceID
	}
	if s.MemberStackID != "" {
		text += "  nested stack " + s.MemberStackID
	}
	return text
}

// MissingFile says what to do about a file of the VNF package.
const MissingFile = "missing: `hitchctl apply --package` uploads it"

// NoNodes says what an instance without nodes lacks.
const NoNodes = "none; a topology names them (`hitchctl apply --topology`, or an operation's)"

// OfStack is the tone of Heat's stack_status.
func OfStack(status string) Tone {
	switch {
	case strings.HasSuffix(status, "_FAILED"), strings.HasPrefix(status, "ROLLBACK_"), status == "DELETE_COMPLETE":
		return Bad
	case strings.HasSuffix(status, "_COMPLETE"):
		return Good
	}
	return Waiting
}
