package api

import "fmt"

// Describe names the request for people: "SCALE_OUT END".
func (r OperationRequest) Describe() string {
	if r.Operation == Scale {
		return fmt.Sprintf("%s %s", r.Type, r.Phase)
	}
	return fmt.Sprintf("%s %s", r.Operation, r.Phase)
}
