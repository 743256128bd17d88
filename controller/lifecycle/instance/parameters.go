package instance

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

// ReadParameters reads the additionalParams of a PUT, with the instance's secrets in the place
// of their placeholders, and finds all their faults. Only it decides whether parameters are valid.
func (s *Service) ReadParameters(id string, additionalParams json.RawMessage) (desired.Parameters, fault.List, error) {
	text, err := s.keepSecrets(id, additionalParams)
	if err != nil {
		return desired.Parameters{}, nil, err
	}
	read := desired.Parse(text)
	names := params.CheckHostNames(cmp.Or(read.Params, read.Report.Partial), s.OwnNames, desired.AtParams)
	return read, slices.Concat(read.Report.Faults, names), nil
}

// keepSecrets is additionalParams with the instance's secrets in the place of their
// placeholders, as far as params.Restore keeps them.
func (s *Service) keepSecrets(id string, additionalParams json.RawMessage) (kept json.RawMessage, err error) {
	kept = additionalParams
	if !bytes.Contains(kept, []byte(params.Redacted)) {
		return kept, nil
	}
	err = s.Runner.Peek(id, func(t *tx.Tx, found bool) error {
		if !found {
			return nil
		}
		d, err := desired.InForce(t)
		if err == nil {
			kept = params.Restore(additionalParams, d.Raw)
		}
		return err
	})
	return kept, err
}
