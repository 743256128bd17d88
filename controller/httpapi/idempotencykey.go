package httpapi

import (
	"fmt"
	"regexp"
	"strings"

	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

const idempotencyKeyHeader = "Idempotency-Key"

// keyGrammar: the draft of the header (draft-ietf-httpapi-idempotency-key-header) has a string in
// quotes, most clients send it bare. A comma outside of quotes stands between two keys.
var keyGrammar = regexp.MustCompile(`^("[ !#-\[\]-~]{1,128}"|[!#-+\--\[\]-~]{1,128})$`)

// useKeyOfHeader puts the key of the header into the request. It refuses a header that is no
// key, and a request whose body has another key.
func useKeyOfHeader(header *string, r *wire.OperationRequest) error {
	if header == nil {
		return nil
	}
	if !keyGrammar.MatchString(*header) {
		return wire.NewProblem(wire.ProblemInvalid, fmt.Sprintf(
			"header parameter %s is %.140q; expected one key of 1 to 128 printable ASCII characters without quotes and backslashes, bare (then also without spaces and commas) or in double quotes", idempotencyKeyHeader, *header))
	}
	key := strings.Trim(*header, `"`)
	if r.IdempotencyKey != "" && r.IdempotencyKey != key {
		return wire.NewInvalid(fault.List{fault.Root.Key("idempotencyKey").Fault(fmt.Sprintf(
			"is %q, and the header %s is %q; expected the same key in both, or one of them left out", r.IdempotencyKey, idempotencyKeyHeader, key))})
	}
	r.IdempotencyKey = key
	return nil
}
