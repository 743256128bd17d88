package dockerconf

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
)

const authsKey = "auths"

// Login is what a registry asks for.
type Login struct{ Username, Password string }

// String keeps the password out of what is printed.
func (l Login) String() string { return l.Username + ":***" }

// GoString is String, for %#v.
func (l Login) GoString() string { return l.String() }

// LoginOf returns the login for a server (host or host:port) in the content of config.json;
// false if it has none. An error describes what Docker would refuse, and contains no secret.
func LoginOf(content []byte, server string) (Login, bool, error) {
	d, err := parse(content)
	if err != nil {
		return Login{}, false, err
	}
	_, v, err := d.auth(server)
	if err != nil || v == nil {
		return Login{}, false, err
	}
	l, _, err := d.login(v)
	return l, l.Username != "", err
}

// SetLogin returns the content of config.json with this login for the server instead of any
// other. Content that has it is returned unchanged.
func SetLogin(content []byte, server string, login Login) ([]byte, error) {
	if err := errors.Join(checkServers(server), login.check()); err != nil {
		return nil, err
	}
	d, err := parse(content)
	if err != nil {
		return nil, err
	}
	auths, v, err := d.auth(server)
	if err != nil {
		return nil, err
	}
	if v != nil {
		if l, e, err := d.login(v); err == nil && l == login && e.IdentityToken+e.RegistryToken == "" {
			return content, nil
		}
	}
	auth := hujson.String(base64.StdEncoding.EncodeToString([]byte(login.Username + ":" + login.Password)))
	ours := func(lead hujson.Extra) hujson.ValueTrimmed { return d.nested(lead, "auth", auth) }
	if auths != nil {
		d.set(auths, authKey(server), ours)
	} else {
		d.set(d.settings, authsKey, func(lead hujson.Extra) hujson.ValueTrimmed {
			return d.nested(lead, authKey(server), ours(d.deeper(lead)))
		})
	}
	return d.root.Pack(), nil
}

// RemoveLogin returns the content of config.json without a login for the server, and
// without auths if it was the only one. It returns nil if no setting is left, which to
// Docker is the same as no file: the caller removes a file that the agent created, and
// writes {} to any other.
func RemoveLogin(content []byte, server string) ([]byte, error) {
	d, err := parse(content)
	if err != nil {
		return nil, err
	}
	auths, v, err := d.auth(server)
	if err != nil {
		return nil, err
	}
	if v == nil {
		return content, nil
	}
	if len(auths.Members) == 1 {
		return d.drop(d.settings, authsKey), nil
	}
	return d.drop(auths, authKey(server)), nil
}

// auth returns the object auths and the server's member of it, each nil if it is missing or
// null.
func (d *document) auth(server string) (auths *hujson.Object, v *hujson.Value, err error) {
	all, err := d.member(d.settings, authsKey)
	if err != nil || all == nil || all.Value.Kind() == 'n' {
		return nil, nil, err
	}
	auths, ok := all.Value.(*hujson.Object)
	if !ok {
		return nil, nil, d.wrong(all, authsKey, "an object, { }")
	}
	if v, err = d.member(auths, authKey(server)); err != nil || v == nil || v.Value.Kind() == 'n' {
		return auths, nil, err
	}
	if v.Value.Kind() != '{' {
		return nil, nil, d.wrong(v, "the login of "+server, "an object, { }")
	}
	return auths, v, nil
}

// entry is a member of auths, as Docker and kubelet read it.
type entry struct {
	Auth          string `json:"auth"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"` // used instead of a password
	RegistryToken string `json:"registrytoken"`
}

// login decodes a member of auths.
func (d *document) login(v *hujson.Value) (Login, entry, error) {
	wrong := fmt.Errorf("line %d: auth is not the base64 of user:password, and Docker refuses the file", d.line(v))
	var e entry
	if json.Unmarshal(v.Pack(), &e) != nil {
		return Login{}, e, wrong
	}
	if e.Auth == "" {
		return Login{e.Username, e.Password}, e, nil
	}
	decoded, err := base64.StdEncoding.DecodeString(e.Auth)
	username, password, ok := strings.Cut(string(decoded), ":")
	if err != nil || !ok || username == "" {
		return Login{}, e, wrong
	}
	return Login{username, password}, e, nil
}

// check refuses a login that base64 of user:password cannot encode.
func (l Login) check() error {
	switch {
	case l.Username == "":
		return errors.New("a login without a username; Docker accepts none")
	case strings.Contains(l.Username, ":"):
		return fmt.Errorf("username %q: it holds a colon, and Docker reads what follows as the password", l.Username)
	case strings.Contains(l.Username+l.Password, "\x00"):
		return fmt.Errorf("the login of %q holds a NUL character, which Docker cuts off", l.Username)
	}
	return nil
}

// authKey is the name of a server in auths. Docker, kubelet and containerd's own clients
// all find it: the name as in an image, without a scheme. Docker Hub has a legacy name.
// Kubelet cannot find an IPv6 address without a port, because it reads the brackets as a
// pattern.
func authKey(server string) string {
	if server == "docker.io" || server == "index.docker.io" {
		return "https://index.docker.io/v1/"
	}
	return server
}
