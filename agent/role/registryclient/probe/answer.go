package probe

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

// maxBody is how much of an answer is read: more than any token, which must fit into a
// header.
const maxBody = 32 << 10

// maxQuote is how much of a server's text is repeated, in characters.
const maxQuote = 300

// answer is an HTTP answer and the URL that it came from.
type answer struct {
	status int
	header http.Header
	url    *url.URL
	body   []byte
	tls    *tls.ConnectionState
}

func readAnswer(resp *http.Response) (*answer, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return nil, fmt.Errorf("its answer was cut off: %w", err)
	}
	return &answer{status: resp.StatusCode, header: resp.Header, url: resp.Request.URL, body: body, tls: resp.TLS}, nil
}

// bySystemCAs is why the system's CAs alone do not vouch for the server that has answered.
func (a *answer) bySystemCAs() error {
	if a.tls == nil {
		return nil
	}
	others := x509.NewCertPool()
	for _, c := range a.tls.PeerCertificates[1:] {
		others.AddCert(c)
	}
	_, err := a.tls.PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: a.url.Hostname(), Roots: roots(), Intermediates: others})
	return err
}

// versioned reports whether the header names the Distribution API. A registry behind a web
// server's own login sends it only after that login.
func (a *answer) versioned() bool {
	return strings.Contains(strings.Join(a.header.Values("Docker-Distribution-Api-Version"), " "), "registry/2")
}

// isRegistry tells a registry's 200 from that of a web server, which may have a page for
// every path.
func (a *answer) isRegistry() bool {
	body := bytes.TrimSpace(a.body)
	return a.versioned() || len(body) == 0 || json.Valid(body)
}

// summary is the answer on one line.
func (a *answer) summary(clean func(string) string) string {
	text := fmt.Sprintf("%d %s", a.status, http.StatusText(a.status))
	if to := a.header.Get("Location"); to != "" && a.status/100 == 3 {
		to, _, _ = strings.Cut(to, "?")
		text += " to " + clean(to) + ", which is not followed"
	}
	if message := a.message(); message != "" {
		text += ", " + clean(message)
	}
	return text
}

// message is the server's message: a registry's errors or plain text. For HTML it only says
// that it is HTML.
func (a *answer) message() string {
	var said struct {
		Errors []struct{ Code, Message string } `json:"errors"`
	}
	if json.Unmarshal(a.body, &said) == nil && len(said.Errors) > 0 {
		var lines []string
		for _, e := range said.Errors {
			lines = append(lines, strings.Trim(e.Code+": "+e.Message, ": "))
		}
		return strings.Join(lines, "; ")
	}
	kind := a.header.Get("Content-Type")
	if strings.Contains(kind, "html") {
		return "a page of HTML"
	}
	return string(a.body)
}

// forms are how a server may repeat a secret: as it is, in a URL, and within JSON, where
// encoders differ in what they escape beside quotes and backslashes.
func forms(secret string) []string {
	var strict bytes.Buffer
	encoder := json.NewEncoder(&strict)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(secret) // a text and a buffer do not fail
	html, _ := json.Marshal(secret)
	quoted := strings.TrimSpace(strict.String())
	all := []string{secret, url.QueryEscape(secret), url.PathEscape(secret)}
	for _, text := range []string{quoted, string(html), strings.ReplaceAll(quoted, "/", `\/`), strconv.QuoteToASCII(secret)} {
		all = append(all, text[1:len(text)-1])
	}
	return all
}

// clean is a server's text on one line, bounded, without control characters, and without the
// secrets, which an answer may repeat.
func (s *session) clean(text string) string {
	for _, secret := range s.secrets {
		if secret == "" {
			continue
		}
		for _, form := range forms(secret) {
			text = strings.ReplaceAll(text, form, "(redacted)")
		}
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > maxQuote {
		text = string(r[:maxQuote]) + "…"
	}
	return text
}
