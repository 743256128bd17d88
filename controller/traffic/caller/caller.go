// Package caller knows who is at the other end of a connection: its address, its
// certificates, and whether it is an operator of the machine. A replica that passes a request
// on says that to the other one.
package caller

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"

	"golang.org/x/sys/unix"
)

// Header carries a caller from one replica to another. It is believed from other replicas
// only, and never passed on from anybody else.
const Header = "Nodehitch-Caller"

// maxChain bounds the certificates that are passed on, in bytes. A node's chain has about 1,300.
const maxChain = 16 << 10

// Caller is who made a request.
type Caller struct {
	// Address is http.Request.RemoteAddr.
	Address string `json:"address"`
	// TLS says that the connection has it; Chain is what the caller has proven to be by it, in
	// DER, nil without a client certificate.
	TLS   bool     `json:"tls,omitempty"`
	Chain [][]byte `json:"chain,omitempty"`
	// Operator is set if the caller is one of the machine, on its unix socket.
	Operator *Local `json:"operator,omitempty"`
}

// Local is a user of a machine of the controller.
type Local struct {
	UID uint32 `json:"uid"`
	// Replica is that of the machine, "" for this one.
	Replica string `json:"replica,omitempty"`
}

type operatorKey struct{}

// Context notes who is at the other end of a unix socket's connection, as the kernel says
// (SO_PEERCRED). It is a ConnContext of http.Server.
func Context(ctx context.Context, conn net.Conn) context.Context {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return ctx
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	// Root, and the user that the controller runs as, can read the store and its key anyway.
	if err != nil || credErr != nil || (cred.Uid != 0 && cred.Uid != uint32(os.Geteuid())) {
		return ctx
	}
	return context.WithValue(ctx, operatorKey{}, Local{UID: cred.Uid})
}

// Operator reports who an operator of the machine is that has connected to its unix socket,
// also if that is the machine of another replica.
func Operator(ctx context.Context) (who string, ok bool) {
	local, ok := ctx.Value(operatorKey{}).(Local)
	switch {
	case !ok:
		return "", false
	case local.Replica != "":
		return fmt.Sprintf("uid %d of the machine of replica %s", local.UID, local.Replica), true
	}
	return fmt.Sprintf("uid %d of this machine", local.UID), true
}

// Of is the caller of a request that a server of this replica has received.
func Of(r *http.Request, replica string) Caller {
	c := Caller{Address: r.RemoteAddr, TLS: r.TLS != nil}
	if local, ok := r.Context().Value(operatorKey{}).(Local); ok {
		c.Operator = &Local{UID: local.UID, Replica: replica}
	}
	if c.TLS {
		for _, certificate := range r.TLS.PeerCertificates {
			c.Chain = append(c.Chain, certificate.Raw)
		}
	}
	return c
}

// Set says in the header of a request to another replica who its caller is, in the place of
// all that the caller has said of that. Its error is of a chain of certificates that is too long.
func (c Caller) Set(h http.Header) error {
	h.Del(Header)
	size := 0
	for _, der := range c.Chain {
		size += len(der)
	}
	if size > maxChain {
		return fmt.Errorf("the client certificate and its chain have %d bytes; expected at most %d", size, maxChain)
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	h.Set(Header, string(text))
	return nil
}

// Restore is the request as if its caller had connected here. Only a request that another
// replica has made may be given to it.
func Restore(r *http.Request) (*http.Request, error) {
	said := r.Header.Values(Header)
	if len(said) != 1 {
		return nil, fmt.Errorf("the request of a replica has %d headers %s; expected one", len(said), Header)
	}
	var c Caller
	if err := json.Unmarshal([]byte(said[0]), &c); err != nil {
		return nil, fmt.Errorf("the header %s of a replica: %w", Header, err)
	}
	ctx := r.Context()
	if c.Operator != nil {
		ctx = context.WithValue(ctx, operatorKey{}, *c.Operator)
	}
	r = r.WithContext(ctx)
	r.Header.Del(Header)
	r.RemoteAddr, r.TLS = c.Address, nil
	if !c.TLS {
		return r, nil
	}
	r.TLS = &tls.ConnectionState{HandshakeComplete: true}
	for _, der := range c.Chain {
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("the header %s of a replica: %w", Header, err)
		}
		r.TLS.PeerCertificates = append(r.TLS.PeerCertificates, certificate)
	}
	return r, nil
}
