package desired

import (
	"encoding/json"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/params"
)

// Parameters are additionalParams that were parsed. What they point to never changes.
type Parameters struct {
	// Raw is the additionalParams as they were sent.
	Raw json.RawMessage
	// Params is nil if this version of the controller finds faults in them.
	Params *params.Params
	// Report has their faults and warnings.
	Report params.Report
}

// Parse parses the additionalParams of a PUT.
func Parse(raw json.RawMessage) Parameters {
	p := Parameters{Raw: raw}
	p.Params, p.Report = params.Parse(raw, AtParams)
	return p
}

// Reseal is the sealed form of the parameters: the old one if it means the same. They are not
// parsed again once they are in force.
func (p Parameters) Reseal(s *store.Store, old store.Sealed) (store.Sealed, error) {
	sealed, err := Reseal(s, old, p.Raw)
	if err == nil && string(sealed) != string(old) {
		p.keep(sealed)
	}
	return sealed, err
}

// recent has the parameters that were parsed last by their sealed text, which no other
// parameters have: numbers of versions are used again after a DELETE. It is one for the
// process because its keys are good for every store.
var recent, _ = lru.New[string, Parameters](256) // an error only for sizes below 1

// longestKept bounds what recent takes of memory: longer parameters are parsed each time.
const longestKept = 64 << 10

func (p Parameters) keep(sealed store.Sealed) {
	if len(sealed) <= longestKept {
		recent.Add(string(sealed), p)
	}
}

func readParameters(s *store.Store, sealed store.Sealed) (Parameters, error) {
	if known, ok := recent.Get(string(sealed)); ok {
		return known, nil
	}
	raw, err := s.Unseal(sealed)
	if err != nil {
		return Parameters{}, err
	}
	p := Parse(raw)
	p.keep(sealed)
	return p, nil
}
