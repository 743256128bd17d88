package desired

import (
	"encoding/json"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/params"
)

// parsed is additionalParams as they were read last. What it points to never changes.
type parsed struct {
	raw    json.RawMessage
	params *params.Params
	report params.Report
}

// recent has the parameters that were read last by their sealed text, which no other
// parameters have: numbers of versions are used again after a DELETE. It is one for the
// process because its keys are good for every store.
var recent, _ = lru.New[string, parsed](256) // an error only for sizes below 1

// longestKept bounds what recent takes of memory: longer parameters are read each time.
const longestKept = 64 << 10

func readParams(s *store.Store, sealed store.Sealed) (parsed, error) {
	if known, ok := recent.Get(string(sealed)); ok {
		return known, nil
	}
	raw, err := s.Unseal(sealed)
	if err != nil {
		return parsed{}, err
	}
	read := parsed{raw: raw}
	read.params, read.report = params.Parse(raw, AtParams)
	if len(sealed) <= longestKept {
		recent.Add(string(sealed), read)
	}
	return read, nil
}
