package params

import (
	"errors"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/params/grammar"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

func (o *object) registryConnection() RegistryConnection {
	server := text(o, keyServer, required, keepingText(grammar.RegistryServer))
	c := RegistryConnection{
		Type:            o.connectionType(),
		Server:          server.text,
		Username:        text(o, keyUsername, optional, loginName),
		Password:        o.loginPassword(),
		CertificatePath: text(o, keyCertificatePath, optional, grammar.PackagePath),
		HostsEntry:      text(o, keyHosts, optional, hostsEntry),
	}
	o.close()
	if o != nil {
		o.checkConnection(c, server.value)
	}
	return c
}

// kept is a value together with the text that it was read from.
type kept[T any] struct {
	text  string
	value T
}

func keepingText[T any](grammar func(string) (T, error)) func(string) (kept[T], error) {
	return func(s string) (kept[T], error) {
		value, err := grammar(s)
		return kept[T]{text: s, value: value}, err
	}
}

// connectionType reads "0" (HTTP) or "1" (HTTPS), or the integers.
func (o *object) connectionType() ConnectionType {
	const name = "connection_type"
	n, at := o.attribute(name, required, jsontree.String, jsontree.Number)
	if n == nil {
		return HTTP
	}
	switch n.Text {
	case "0":
		return HTTP
	case "1":
		return HTTPS
	}
	o.r.fault(at, `%s is no connection type; expected "0" for HTTP or "1" for HTTPS`, grammar.Show(n.Text))
	return HTTP
}

func hostsEntry(s string) (*HostsEntry, error) {
	addr, names, err := grammar.HostsLine(s)
	if err != nil {
		return nil, err
	}
	return &HostsEntry{Address: addr, Names: names}, nil
}

// loginName is the user of a registry; HTTP's basic authentication ends it at
// the first colon (RFC 7617 section 2).
func loginName(s string) (string, error) {
	if strings.Contains(s, ":") {
		return "", errors.New("holds a colon, which no user name of a registry can (RFC 7617)")
	}
	return grammar.Label(s)
}

// loginPassword accepts what `docker login` does: also line breaks, as in the key of a
// service account (user _json_key).
func (o *object) loginPassword() Secret {
	password := o.secret(keyPassword)
	if strings.Contains(password.Reveal(), "\x00") {
		o.r.fault(o.key(keyPassword), "holds a NUL character, where Docker cuts the password off; remove it")
	}
	return password
}

func (o *object) checkConnection(c RegistryConnection, server grammar.Server) {
	hasUser, hasPassword := o.has(keyUsername), o.has(keyPassword)
	switch {
	case hasUser && !hasPassword:
		o.r.fault(o.at, "has %s without %s; give both or neither", keyUsername, keyPassword)
	case hasPassword && !hasUser:
		o.r.fault(o.at, "has %s without %s; give both or neither", keyPassword, keyUsername)
	}
	if c.Server == "" || o.node.Get("connection_type") == nil {
		return
	}
	o.checkDockerHub(c)
	if c.Type == HTTP && c.CertificatePath != "" {
		o.r.warn(o.key(keyCertificatePath), `has no effect: the connection is HTTP (connection_type "0")`)
	}
	if c.Type == HTTP && hasUser && hasPassword {
		o.r.warn(o.at, `sends %s and %s unencrypted: the connection is HTTP (connection_type "0")`, keyUsername, keyPassword)
	}
	if server.Port == 0 && !strings.ContainsAny(server.Host, ".:") && server.Host != "localhost" {
		o.r.warn(o.key(keyServer), "%q has neither a dot nor a port: in an image name, Docker takes it for a part of docker.io; write host:port", c.Server)
	}
	o.checkHosts(c, server)
}

// checkDockerHub refuses a Docker Hub that no engine would reach.
func (o *object) checkDockerHub(c RegistryConnection) {
	switch {
	case c.Server == "index.docker.io":
		o.r.fault(o.key(keyServer), "%q is Docker Hub, whose images have names that begin with docker.io; write docker.io", c.Server)
	case c.Server != "docker.io":
	case c.Type == HTTP:
		o.r.fault(o.key(keyServer), `%q is Docker Hub, which serves HTTPS only; write connection_type "1"`, c.Server)
	case c.CertificatePath != "":
		o.r.warn(o.key(keyCertificatePath), "has no effect on Docker, which trusts only the system's CAs for docker.io; containerd uses it")
	}
}

// checkHosts warns if the line for /etc/hosts is not about the server, or also about others.
func (o *object) checkHosts(c RegistryConnection, server grammar.Server) {
	if c.HostsEntry == nil {
		return
	}
	others := slices.DeleteFunc(slices.Clone(c.HostsEntry.Names), func(name string) bool { return strings.EqualFold(name, server.Host) })
	switch {
	case len(others) == len(c.HostsEntry.Names):
		o.r.warn(o.key(keyHosts), "does not name the host of %s, %s", keyServer, server.Host)
	case len(others) > 0:
		o.r.warn(o.key(keyHosts), "names %s too, which is not the host of %s, %s; every program of the node then looks for it at %s",
			listed(others), keyServer, server.Host, c.HostsEntry.Address)
	}
}
