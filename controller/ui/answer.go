package ui

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/ui/page"
	"github.com/nodehitch/nodehitch/shared/api"
)

// policy is the Content-Security-Policy of every answer.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// Below reports whether a path is the status page's.
func Below(path string) bool { return path == "/ui" || strings.HasPrefix(path, page.PathOverview) }

// restrict says what the browser may do with the answer.
func restrict(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "HX-Request")
}

// shown answers with the page of what read has read.
func (u *UI) shown(read func(*http.Request) (page.View, error)) func(http.ResponseWriter, *http.Request, Session) error {
	return func(w http.ResponseWriter, r *http.Request, s Session) error {
		text, err := u.inTurn(r, func() ([]byte, error) {
			if _, err := u.Authenticate(r); err != nil { // revoked while it waited
				return nil, err
			}
			view, err := read(r)
			if err != nil {
				return nil, err
			}
			return u.html(r, s, view)
		})
		if err != nil {
			return err
		}
		send(w, r, http.StatusOK, text)
		return nil
	}
}

// inTurn makes a page when it is its turn. A page of a large fleet takes memory and a good part of a
// second of a processor, and a session has hundreds of connections.
func (u *UI) inTurn(r *http.Request, do func() ([]byte, error)) ([]byte, error) {
	select {
	case u.turns <- struct{}{}:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	defer func() { <-u.turns }()
	return do()
}

// write answers with a page, or with its fragment if the page itself asks for it again.
func (u *UI) write(w http.ResponseWriter, r *http.Request, s Session, status int, view page.View) error {
	text, err := u.html(r, s, view)
	if err == nil {
		send(w, r, status, text)
	}
	return err
}

func (u *UI) html(r *http.Request, s Session, view page.View) ([]byte, error) {
	var text bytes.Buffer
	err := page.Write(&text, page.Frame{Now: u.Now(), URL: r.URL, Token: s.Token.Name, Version: u.Version, Fragment: isFragment(r)}, view)
	return text.Bytes(), err
}

// send answers with a page. A fragment that the browser has is not sent again.
func send(w http.ResponseWriter, r *http.Request, status int, text []byte) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if isFragment(r) && status == http.StatusOK {
		w.Header().Set("ETag", page.ETag(text))
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
		return
	}
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may have gone
}

// isFragment reports whether the page's script asks for what changes only.
func isFragment(r *http.Request) bool { return r.Header.Get("HX-Request") == "true" }

// Refuse answers with a problem: as a page, and who is not signed in is led to the form. Fragments
// and streams are no pages, so their script has to go there itself.
func (u *UI) Refuse(w http.ResponseWriter, r *http.Request, p api.Problem) error {
	restrict(w.Header())
	if p.Status != http.StatusUnauthorized {
		return u.write(w, r, u.whoIs(r), p.Status, page.Problem{Problem: p})
	}
	_, err := r.Cookie(cookieName)
	if err == nil {
		forget(w)
	}
	if err != nil && fromAnotherSite(r) {
		w.Header().Set("Refresh", "0; url="+r.URL.RequestURI())
		return u.write(w, r, Session{}, http.StatusUnauthorized, page.SignIn{Next: r.URL.RequestURI()})
	}
	form := page.PathSignIn
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		form += "?next=" + url.QueryEscape(r.URL.RequestURI())
	}
	if isFragment(r) || r.URL.Path == page.PathEvents {
		w.Header().Set("HX-Redirect", form)
		w.WriteHeader(http.StatusUnauthorized)
		return nil
	}
	http.Redirect(w, r, form, http.StatusSeeOther)
	return nil
}

// fromAnotherSite reports whether somebody has followed a link of another site, a dashboard's say. For
// that the browser sends no cookie, and neither if it is led on from here; it does if the page itself
// asks again.
func fromAnotherSite(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Method == http.MethodGet
}

// whoIs is the session for the frame of an error's page, the zero Session for nobody.
func (u *UI) whoIs(r *http.Request) Session {
	s, _ := u.Authenticate(r)
	return s
}

// asset serves a style sheet, a script or an image. Its name has its digest.
func asset(w http.ResponseWriter, r *http.Request, _ Session) error {
	content, media, ok := page.Asset(r.PathValue("file"))
	if !ok {
		return errNoPage
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	return nil
}
