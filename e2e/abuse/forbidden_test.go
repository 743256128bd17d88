package abuse

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/nodehitch/nodehitch/shared/api"
)

// forbidden is a request that must be refused.
type forbidden struct {
	what    string
	as      *tls.Config
	request string
}

// forbiddenRequests are made during each attack and once after it: they are refused on an
// overloaded machine too.
func (a *arena) forbiddenRequests() []forbidden {
	const once = "Connection: close"
	text, err := json.Marshal(api.EnrollRequest{ServerID: revokedServer, CertificateRequest: a.request})
	a.must(err)
	enroll := string(text)
	return []forbidden{
		{"the instances without a token", a.unauthenticated, head("GET", "/v1/vnf_instances", "", 0, once)},
		{"the instances with a token that is made up", a.unauthenticated, head("GET", "/v1/vnf_instances", "made.up", 0, once)},
		{"the join token with a token that was revoked", a.unauthenticated, head("GET", putInstance+"/join_token", a.revokedToken, 0, once)},
		{"a configuration without a certificate", a.unauthenticated, head("GET", "/v1/node/config", "", 0, once)},
		{"the configuration of a revoked node", a.revokedNode, head("GET", "/v1/node/config", "", 0, once)},
		{"a certificate for a revoked node", a.unauthenticated, head("POST", "/v1/enroll", a.join, len(enroll), once) + enroll},
		{"a certificate with a join token that is made up", a.unauthenticated, head("POST", "/v1/enroll", "made.up", len(enroll), once) + enroll},
	}
}

// gives says whether an answer has something that only an authenticated caller may get.
func (a *arena) gives(status int, answer string) bool {
	if status/100 == 2 {
		return true
	}
	for _, secret := range []string{a.operator, a.viewer, a.bystanderToken, a.revokedToken, a.join, "-----BEGIN"} {
		if strings.Contains(answer, secret) {
			return true
		}
	}
	return false
}

// forbidden makes a request and notes the answer, if there is one.
func (w *watch) forbidden(ctx context.Context, a *arena, r forbidden) bool {
	status, answer, err := ask(ctx, a.address, r.as, r.request)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			w.unanswered++
		}
		return false
	}
	w.refused++
	switch {
	case a.gives(status, answer):
		w.refused--
		w.given = append(w.given, r.what)
	case status != http.StatusUnauthorized && status != http.StatusForbidden && status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable:
		w.failures = append(w.failures, r.what+": answered "+http.StatusText(status))
	}
	return true
}
