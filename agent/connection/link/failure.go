package link

import (
	"errors"
	"net/http"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// Failure is the kind of a failed call; it decides when the call is tried again.
type Failure int

const (
	// Transient means that the controller did not answer, or could not serve the call. Retry soon.
	Transient Failure = iota
	// NotYetExpected means that no topology lists this server yet. Retry soon: the operation that
	// adds it is usually in progress.
	NotYetExpected
	// IdentityLive means that the server already has a live identity. An operator has to allow
	// another one.
	IdentityLive
	// NotAttested means that the cloud contradicts the claim that this machine is the server. It
	// may agree later, or an operator has to act.
	NotAttested
	// Refused means that the identity or the token is not accepted. Retry seldom.
	Refused
)

// Classify returns the kind of failure that a call's error is. Without an answer of the controller,
// as after an error of TLS, it is Transient.
func Classify(err error) Failure {
	var problem *api.Problem
	if !errors.As(err, &problem) {
		return Transient
	}
	switch problem.Type {
	case api.ProblemServerNotExpected:
		return NotYetExpected
	case api.ProblemIdentityLive:
		return IdentityLive
	case api.ProblemNotAttested:
		return NotAttested
	case api.ProblemNonceRequired:
		return Transient
	}
	switch client.Status(err) {
	case http.StatusUnauthorized, http.StatusForbidden:
		return Refused
	case http.StatusTooManyRequests:
		return Transient
	}
	if problem.Status >= 500 {
		return Transient
	}
	return Refused
}
