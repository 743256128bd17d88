package api

import "fmt"

// OperationID is the id of an operation by its number in its instance.
func OperationID(vnfInstanceID string, sequence int64) string {
	return fmt.Sprintf("%s/%d", vnfInstanceID, sequence)
}

// Describe names the request for people: "SCALE_OUT END".
func (r OperationRequest) Describe() string {
	if r.Operation == Scale {
		return fmt.Sprintf("%s %s", r.Type, r.Phase)
	}
	return fmt.Sprintf("%s %s", r.Operation, r.Phase)
}
