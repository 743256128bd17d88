package link

import (
	"errors"
	"net/http"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// Trouble is what a failed call means for the next one.
type Trouble int

// The kinds of trouble.
const (
	// Passing: nobody answered, or the controller is not well. Soon again.
	Passing Trouble = iota
	// Unexpected: no topology names this server yet. Soon again, for the operation
	// that will name it is usually under way.
	Unexpected
	// Occupied: the server has a live identity already. A person has to allow
	// another one.
	Occupied
	// Unproven: the cloud does not bear out that the machine is the server. That may
	// pass with the cloud's next step, or need a person.
	Unproven
	// Refused: the identity or the token is not accepted. Seldom again.
	Refused
)

// Judge says what kind of trouble an error of a call is.
func Judge(err error) Trouble {
	var problem *api.Problem
	if !errors.As(err, &problem) {
		return Passing
	}
	switch problem.Type {
	case api.ProblemServerNotExpected:
		return Unexpected
	case api.ProblemIdentityLive:
		return Occupied
	case api.ProblemNotAttested:
		return Unproven
	case api.ProblemNonceRequired:
		return Passing
	}
	switch client.Status(err) {
	case http.StatusUnauthorized, http.StatusForbidden:
		return Refused
	case http.StatusTooManyRequests:
		return Passing
	}
	if problem.Status >= 500 {
		return Passing
	}
	return Refused
}
