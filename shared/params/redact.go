package params

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/nearest"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// Redact is the body with every secret replaced by Redacted, for callers who may look
// at a request but not use it. Order, spacing and everything else stay as they
// were. A secret is
//   - the value, whatever it is, of a member whose name says so (see secretName), at
//     any depth and also in unknown attributes: additionalParams' passwords,
//     vimConnectionInfo[].accessInfo.password, a join token;
//   - what stands before the last @ of a proxy, or of any text with a scheme;
//   - in a query string, the value of a parameter whose name says so;
//   - a text that contains a PEM private key.
//
// Null, true, false and the empty text are no secrets. What is not JSON, or
// nests too deeply to be looked through, is replaced as a whole.
func Redact(raw json.RawMessage) json.RawMessage {
	node, broken := jsontree.Parse(raw)
	if broken != nil {
		return json.RawMessage(`"` + Redacted + `"`)
	}
	out := make([]byte, 0, len(raw))
	done := 0
	find(node, "", func(n *jsontree.Node, public string) {
		out = append(out, raw[done:n.Start]...)
		text, err := json.Marshal(public)
		if err != nil {
			text = []byte(`"` + Redacted + `"`)
		}
		out = append(out, text...)
		done = n.End
	})
	return append(out, raw[done:]...)
}

// Secrets lists what Redact takes out of the body: every secret text, and of a
// userinfo the whole and the password alone. It serves to look for them where
// they must not be. Note that a password may be a word that occurs innocently:
// the specifications' samples have user name and password "ubuntu".
func Secrets(raw json.RawMessage) []string {
	node, broken := jsontree.Parse(raw)
	if broken != nil {
		return nil
	}
	var secrets []string
	find(node, "", func(n *jsontree.Node, public string) {
		secrets = appendSecrets(secrets, n, public)
	})
	return secrets
}

func appendSecrets(secrets []string, n *jsontree.Node, public string) []string {
	for _, item := range n.Items {
		secrets = appendSecrets(secrets, item, Redacted)
	}
	for _, m := range n.Members {
		secrets = appendSecrets(secrets, m.Value, Redacted)
	}
	if (n.Kind != jsontree.String && n.Kind != jsontree.Number) || n.Text == "" {
		return secrets
	}
	if public == Redacted {
		return append(secrets, n.Text)
	}
	for _, p := range queryParameter.FindAllStringSubmatch(n.Text, -1) {
		if secretParameter(p[2]) {
			secrets = append(secrets, p[3])
		}
	}
	before, _, userinfo := strings.Cut(public, Redacted+"@")
	if !userinfo {
		return secrets
	}
	info := strings.TrimPrefix(n.Text[:strings.LastIndex(n.Text, "@")], before)
	secrets = append(secrets, info)
	if _, password, ok := strings.Cut(info, ":"); ok && password != "" {
		secrets = append(secrets, password)
	}
	return secrets
}

// find calls found, in the order of the document, for each value that contains a
// secret, with the text to show instead. name is the member that n is the value of.
func find(n *jsontree.Node, name string, found func(n *jsontree.Node, public string)) {
	if public, secret := publicOf(n, name); secret {
		found(n, public)
		return
	}
	for _, item := range n.Items {
		find(item, name, found)
	}
	for _, m := range n.Members {
		find(m.Value, m.Name, found)
	}
}

// publicOf is the text to show instead of a value that contains a secret. What a list or an
// object contains are values of their own.
func publicOf(n *jsontree.Node, name string) (public string, secret bool) {
	switch {
	case n.Kind == jsontree.Null || n.Kind == jsontree.Bool:
		return "", false
	case secretName(name) && (n.Kind != jsontree.String || n.Text != ""):
		return Redacted, true
	case n.Kind == jsontree.String:
		public = publicText(n.Text, proxyName(name))
		return public, public != n.Text
	}
	return "", false
}

// secretWords mark the name of a secret, in lower case without - and _.
var secretWords = []string{
	"password", "passwd", "passphrase", "pwd", "secret", "token", "credential",
	"privatekey", "apikey", "accesskey", "sshkey", "keydata", "kubeconfig",
	"authorization", "community", "passcode", "cookie",
}

// secretEndings mark it at its end only: key_name and authUrl are no secrets. publicEndings
// are names that others than this project have given to what is none.
var (
	secretEndings = []string{"key", "keys", "pin", "pins", "auth", "psk", "otp"}
	publicEndings = []string{"publickey", "publickeys", "topologykey", "labelkey", "sortkey"}
)

// secretName reports whether a member of this name contains a secret. It rather takes
// one name too many.
func secretName(name string) bool {
	name = nearest.Plain(name)
	for _, word := range secretWords {
		if strings.Contains(name, word) {
			return true
		}
	}
	return name == "pass" || hasEnding(name, secretEndings) && !hasEnding(name, publicEndings)
}

func hasEnding(name string, endings []string) bool {
	return slices.ContainsFunc(endings, func(end string) bool { return strings.HasSuffix(name, end) })
}

// queryParameter is a parameter of a query string, with what is before it.
var queryParameter = regexp.MustCompile(`([?&;])([^?&;=#\s]+)=([^&;#\s]+)`)

// secretParameter reports whether a parameter of this name, which may be escaped, contains a
// secret: a signature opens what it signs, too.
func secretParameter(name string) bool {
	if unescaped, err := url.QueryUnescape(name); err == nil {
		name = unescaped
	}
	return secretName(name) || hasEnding(nearest.Plain(name), []string{"sig", "signature"})
}

func publicQuery(s string) string {
	return queryParameter.ReplaceAllStringFunc(s, func(match string) string {
		if p := queryParameter.FindStringSubmatch(match); secretParameter(p[2]) {
			return p[1] + p[2] + "=" + Redacted
		}
		return match
	})
}

func proxyName(name string) bool {
	name = nearest.Plain(name)
	return strings.Contains(name, "proxy") && !strings.Contains(name, "noproxy")
}

var (
	schemeUserinfo = regexp.MustCompile(`(?i)\b([a-z][a-z0-9+.-]*://)\S*@`)
	proxyUserinfo  = regexp.MustCompile(`(?s)^([A-Za-z][A-Za-z0-9+.-]*://)?.*@`)
)

// publicText is the text without the secrets in it. A password may contain a slash
// or an @ where the writer did not escape it, so everything up to the last @ goes.
func publicText(s string, proxy bool) string {
	if strings.Contains(s, "PRIVATE KEY-----") {
		return Redacted
	}
	s = publicQuery(s)
	if !strings.Contains(s, "@") {
		return s
	}
	if proxy {
		return proxyUserinfo.ReplaceAllString(s, "${1}"+Redacted+"@")
	}
	return schemeUserinfo.ReplaceAllString(s, "${1}"+Redacted+"@")
}
