package api

import "fmt"

// OperationID is the id of an operation by its number in its instance.
func OperationID(vnfInstanceID string, sequence int64) string {
	return fmt.Sprintf("%s/%d", vnfInstanceID, sequence)
}

// Kind names an operation as people do: a SCALE by its direction.
func (o OperationType) Kind(direction ScaleType) string {
	if o == Scale && direction != "" {
		return string(direction)
	}
	return string(o)
}

// Describe names the request for people: "SCALE_OUT", and "SCALE_OUT START". It leaves out END,
// which people read as the operation's own end.
func (r OperationRequest) Describe() string {
	name := r.Operation.Kind(r.Type)
	if r.Phase == PhaseStart {
		name += " " + string(PhaseStart)
	}
	return name
}
