package openstack

import (
	"errors"
	"fmt"
	"net/http"
)

// ErrNoCloud says that the configuration and the instance name no cloud.
var ErrNoCloud = errors.New("no cloud is configured for this instance")

// Error is a call that a cloud did not answer as it should. It contains nothing of the
// answer's body and no URL, because those can contain secrets.
type Error struct {
	// Cloud names the cloud, as Cloud.Name does.
	Cloud string
	// Service is the service's type in the catalog, such as compute.
	Service string
	// Call is the method and the path with its variables in braces, as an access rule
	// of an application credential would name it.
	Call string
	// Status is the answer's HTTP status, 0 if none came.
	Status int
	// Message is what went wrong, in words.
	Message string
	// RequestID is the id under which the service logged the call, if it gave one.
	RequestID string

	// denied is a credential that is good and not good enough; final what time does
	// not change; missing a thing that is not there, whatever the status.
	denied, final, missing bool
}

// Error is the whole in one line.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %s (%s): %s", e.Cloud, e.Call, e.Service, e.Message)
	if e.RequestID != "" {
		text += ", request " + e.RequestID
	}
	return text
}

// IsNotFound reports whether the cloud answered that there is no such thing, or none
// that this credential may see.
func IsNotFound(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.missing || e.Status == http.StatusNotFound && e.Service != identity)
}

// IsGone reports whether the cloud answered that there is no such thing. It is IsNotFound
// without what the credential may not see.
func IsGone(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusNotFound && e.Service != identity
}

// IsForbidden reports whether the credential is good and may not make this call, be it
// for its roles or for its access rules, which services answer with 401.
func IsForbidden(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.denied
}

// IsUnavailable reports whether time can help: no connection, no answer in time, too many
// requests, or an error of the service, after all attempts.
func IsUnavailable(err error) bool {
	var e *Error
	return errors.As(err, &e) && !e.final && (e.Status == 0 || e.Status == http.StatusTooManyRequests || e.Status >= http.StatusInternalServerError)
}
