package ui

import (
	"crypto/hmac"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	// cookieName has a prefix with which browsers accept the cookie only from this host, over TLS.
	cookieName = "__Host-nodehitch"
	// sessionLife is how long a sign-in lasts.
	sessionLife = 8 * time.Hour
	// sessionPurpose separates these MACs from all others made with the store's key.
	sessionPurpose = "status page session"
)

// Session is somebody who has signed in. It has a viewer's rights, whatever those of the token.
type Session struct {
	Token api.Token
	// Until is when it ends: after eight hours, and not later than the token.
	Until time.Time
}

var errSignedOut = api.NewProblem(api.ProblemUnauthorized, "you are not signed in, or your session is over: sign in with an API token")

// Authenticate is the session of the request's cookie; unauthorized if there is none. The token's
// record is read each time, so a session ends with its token.
func (u *UI) Authenticate(r *http.Request) (Session, error) {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return Session{}, errSignedOut
	}
	id, until, ok := u.open(cookie.Value)
	if !ok || !u.Now().Before(until) {
		return Session{}, errSignedOut
	}
	token, err := u.Tokens.Find(r.Context(), id)
	if err != nil {
		return Session{}, err
	}
	if token.ExpiresAt != nil && token.ExpiresAt.Before(until) {
		until = *token.ExpiresAt
	}
	return Session{Token: token, Until: until}, nil
}

// cookie is that of a session which begins now.
func (u *UI) cookie(tokenID string) *http.Cookie {
	subject := tokenID + "." + strconv.FormatInt(u.Now().Add(sessionLife).Unix(), 10)
	return newCookie(subject+"."+u.mac(subject), int(sessionLife/time.Second))
}

// open is what a cookie says, if this controller, or one with the same seal key, made it.
func (u *UI) open(value string) (tokenID string, until time.Time, ok bool) {
	last := strings.LastIndexByte(value, '.')
	if last < 0 || !hmac.Equal([]byte(value[last+1:]), []byte(u.mac(value[:last]))) {
		return "", time.Time{}, false
	}
	tokenID, end, _ := strings.Cut(value[:last], ".")
	seconds, err := strconv.ParseInt(end, 10, 64)
	return tokenID, time.Unix(seconds, 0), err == nil
}

func (u *UI) mac(subject string) string {
	return base64.RawURLEncoding.EncodeToString(u.MAC(sessionPurpose, []byte(subject)))
}

func newCookie(value string, maxAge int) *http.Cookie {
	return &http.Cookie{Name: cookieName, Value: value, Path: "/", MaxAge: maxAge, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode}
}

// forget has the browser forget the cookie.
func forget(w http.ResponseWriter) { http.SetCookie(w, newCookie("", -1)) }

// tackerRefused is why a token of that scope does not sign in.
func tackerRefused(t api.Token) error {
	return api.NewProblem(api.ProblemForbidden, fmt.Sprintf("the token %s has the scope %s; the status page needs %s or %s: `hitchctl create token NAME --scope viewer` makes one",
		t.Name, t.Scope, api.ScopeViewer, api.ScopeOperator))
}
