package ui

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/traffic/ratelimit"
	"github.com/nodehitch/nodehitch/controller/ui/page"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	// refusedEvery and refusedBurst limit the refused sign-ins of a network, as those of
	// enrollments are; maxNetworks bounds the memory that callers can take.
	refusedEvery, refusedBurst = 6 * time.Second, 10
	maxNetworks                = 4096

	// maxForm is how many bytes the form may have.
	maxForm = 8 << 10
)

// signInForm shows the form, or goes on if the browser is signed in already.
func (u *UI) signInForm(w http.ResponseWriter, r *http.Request, _ Session) error {
	next := nextOf(r.URL.Query().Get("next"))
	if _, err := u.Authenticate(r); err == nil {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return nil
	}
	return u.write(w, r, Session{}, http.StatusOK, page.SignIn{Next: next})
}

// signIn takes the token and gives the cookie for it. The token is in the body only: not in a URL,
// not in the log, not in the answer.
func (u *UI) signIn(w http.ResponseWriter, r *http.Request, _ Session) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return formProblem(err)
	}
	next := nextOf(r.PostForm.Get("next"))
	token, err := u.Tokens.Verify(r.Context(), strings.TrimSpace(r.PostForm.Get("token")))
	if err == nil && token.Scope == api.ScopeTacker {
		err = tackerRefused(token)
	}
	if err != nil {
		return u.refuseSignIn(w, r, next, err)
	}
	u.Log.InfoContext(r.Context(), "signed in to the status page", "event", api.EventPageSignedIn, "token", token.ID, "name", token.Name, "remote", r.RemoteAddr)
	http.SetCookie(w, u.cookie(token.ID))
	http.Redirect(w, r, next, http.StatusSeeOther)
	return nil
}

func formProblem(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return api.NewProblem(api.ProblemTooLarge, fmt.Sprintf("the form is larger than %d bytes", maxForm))
	}
	return api.NewProblem(api.ProblemInvalid, "the form cannot be read")
}

// refuseSignIn shows the form again, with the reason. A network that guesses is slowed down; a good
// token from there is not.
func (u *UI) refuseSignIn(w http.ResponseWriter, r *http.Request, next string, err error) error {
	var why *api.Problem
	if !errors.As(err, &why) {
		return err
	}
	remote, _ := netip.ParseAddrPort(r.RemoteAddr) // the zero value on the unix socket
	if refusal := u.refused.Take(ratelimit.Network(remote.Addr()), u.Now()); refusal != nil {
		why = api.NewProblem(api.ProblemTooMany, fmt.Sprintf("too many attempts from this network: try again in %v", refusal.Wait))
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(refusal.Wait.Seconds()))))
	} else {
		u.Log.WarnContext(r.Context(), "a sign-in to the status page was refused", "event", api.EventPageRefused, "remote", r.RemoteAddr, "reason", why.Title)
	}
	return u.write(w, r, Session{}, why.Status, page.SignIn{Problem: page.NotSignedIn(*why), Next: next})
}

// signOut ends the session in this browser.
func (u *UI) signOut(w http.ResponseWriter, r *http.Request, _ Session) error {
	forget(w)
	http.Redirect(w, r, page.PathSignIn, http.StatusSeeOther)
	return nil
}

// nextOf is where to go on after a sign-in. It is a path of the page, also if another site wrote the link.
func nextOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.IsAbs() || u.Host != "" || !Below(u.Path) || !strings.HasPrefix(u.Path, page.PathOverview) {
		return page.PathOverview
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).String()
}
