package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// Bounds on what is read of an answer.
const (
	maxAnswer  = 64 << 20
	maxProblem = 1 << 20
	maxExcerpt = 200
)

// UnexpectedAnswer is an answer that no controller gives: of a proxy in between,
// or of some other server.
type UnexpectedAnswer struct {
	URL         string
	Status      int
	ContentType string
	// Excerpt is how its body begins.
	Excerpt string
	// Err says what is wrong with it, nil if only its form is.
	Err error
}

// Error names the URL, the status and how the body begins.
func (e *UnexpectedAnswer) Error() string {
	text := fmt.Sprintf("%s answered %d %s", e.URL, e.Status, http.StatusText(e.Status))
	var unreachable *Unreachable
	if errors.As(e.Err, &unreachable) {
		return text + ", and then " + unreachable.Found
	}
	if e.ContentType != "" {
		text += " with " + e.ContentType
	}
	var wrong []string
	if e.Err != nil {
		wrong = append(wrong, wrongWith(e.Err))
	}
	if e.Excerpt != "" {
		wrong = append(wrong, fmt.Sprintf("begins %q", e.Excerpt))
	}
	if wrong != nil {
		text += " that " + strings.Join(wrong, " and ")
	}
	return text + ", which is no answer of a controller; is the URL right, or is something in between?"
}

// wrongWith is what is wrong with an answer, in words.
func wrongWith(err error) string {
	var syntax *json.SyntaxError
	var other *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return "is no JSON"
	case errors.As(err, &other):
		return fmt.Sprintf("has a %s in the place of %s", other.Value, cmp.Or(other.Field, "an object"))
	}
	return err.Error()
}

// Unwrap is what is wrong with it.
func (e *UnexpectedAnswer) Unwrap() error { return e.Err }

// TooMany is a Problem 429 and how long the controller wants the caller to wait.
type TooMany struct {
	*api.Problem
	RetryAfter time.Duration
}

// Unwrap is the problem.
func (e *TooMany) Unwrap() error { return e.Problem }

// longestWait bounds what a caller takes from Retry-After.
const longestWait = time.Hour

func retryAfter(resp *http.Response) time.Duration {
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || resp.StatusCode != http.StatusTooManyRequests || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, int(longestWait/time.Second))) * time.Second
}

// ProblemOf is the error that an answer tells of, whatever its status: an
// *api.Problem (a *TooMany if it says when to call again), or an *UnexpectedAnswer where it is none. It reads a bounded
// part of the body and closes it.
func ProblemOf(resp *http.Response) error {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	unexpected := describe(resp)
	if err != nil {
		unexpected.Err = cutOff(unexpected.URL, err)
		return unexpected
	}
	if unexpected.ContentType == "application/problem+json" {
		var p api.Problem
		if json.Unmarshal(body, &p) == nil && p.Title != "" {
			p.Status = resp.StatusCode
			if after := retryAfter(resp); after > 0 {
				return &TooMany{Problem: &p, RetryAfter: after}
			}
			return &p
		}
	}
	unexpected.Excerpt = excerpt(body)
	return unexpected
}

// Read takes what a call of the generated client returned and decodes its JSON:
//
//	node, err := client.Read[api.Node](c.GetNode(ctx, id, nil))
//
// Any status that is not 2xx is an error, as of ProblemOf. An answer that was cut off is
// *Unreachable. It closes the body.
func Read[T any](resp *http.Response, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, ProblemOf(resp)
	}
	body, err := Body(resp)
	if err != nil {
		return nil, err
	}
	return Decode[T](resp, body)
}

// Body reads an answer to its end and closes it. An answer that was cut off is *Unreachable.
func Body(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, cutOff(describe(resp).URL, err)
	}
	return body, nil
}

// cutOff is an answer that broke off.
func cutOff(url string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	e := &Unreachable{Where: url, Err: err}
	if e.Found, e.Hint = explain(err); broken(err) {
		e.Found = "the connection ended before the whole answer was here"
	}
	return e
}

// Decode decodes the body of an answer. One that is not JSON of this form is *UnexpectedAnswer.
func Decode[T any](resp *http.Response, body []byte) (*T, error) {
	unexpected, v := describe(resp), new(T)
	if unexpected.ContentType != "application/json" {
		unexpected.Excerpt = excerpt(body)
		return nil, unexpected
	}
	if err := json.Unmarshal(body, v); err != nil {
		unexpected.Err = err
		return nil, unexpected
	}
	return v, nil
}

func excerpt(body []byte) string { return strings.TrimSpace(string(body[:min(len(body), maxExcerpt)])) }

// Done takes what a call returned whose answer has no content.
func Done(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return ProblemOf(resp)
	}
	return resp.Body.Close()
}

// Status is the HTTP status behind an error of this package, 0 if no answer
// came.
func Status(err error) int {
	var (
		problem    *api.Problem
		unexpected *UnexpectedAnswer
	)
	switch {
	case errors.As(err, &problem):
		return problem.Status
	case errors.As(err, &unexpected):
		return unexpected.Status
	}
	return 0
}

func describe(resp *http.Response) *UnexpectedAnswer {
	u := &UnexpectedAnswer{Status: resp.StatusCode}
	u.ContentType, _, _ = mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.Request != nil {
		u.URL = resp.Request.URL.Redacted()
	}
	return u
}
