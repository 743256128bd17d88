package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
)

// ErrRefused says that etcd does not admit this controller: asking again does not help.
var ErrRefused = errors.New("etcd refuses this controller")

// refusal says why etcd does not admit this client (ErrRefused), nil if an error has another
// reason.
func (c *Client) refusal(err error) error {
	if err == nil {
		return nil
	}
	switch code(err) {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated:
	default:
		return nil
	}
	do := ""
	switch {
	case errors.Is(err, rpctypes.ErrAuthFailed):
		do = fmt.Sprintf(": it has no user %q with the password in store.etcd.passwordFile", c.user())
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		do = fmt.Sprintf(": create the user %q there, with a role that may read and write all keys that begin with %s/", c.user(), c.o.Prefix)
	case errors.Is(err, rpctypes.ErrUserEmpty):
		do = ": set store.etcd.username and store.etcd.passwordFile, or a client certificate whose common name is a user, if etcd runs with --client-cert-auth"
	}
	return fmt.Errorf("%w: %w%s", ErrRefused, err, do)
}

// user is the one that etcd takes this client for.
func (c *Client) user() string {
	if c.o.Username != "" || c.o.TLS == nil || c.o.TLS.GetClientCertificate == nil {
		return c.o.Username
	}
	pair, err := c.o.TLS.GetClientCertificate(&tls.CertificateRequestInfo{})
	if err != nil || pair.Leaf == nil {
		return ""
	}
	return pair.Leaf.Subject.CommonName
}

// handshakes is what goes wrong with the TLS connection to each member, nil if nothing does.
// etcd's client keeps it to itself and says that the time was over.
func (c *Client) handshakes(ctx context.Context) (all error) {
	if c.o.TLS == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for _, endpoint := range c.o.Endpoints {
		if err := c.handshake(ctx, endpoint); err != nil {
			all = errors.Join(all, fmt.Errorf("connecting to %s: %w", endpoint, err))
		}
	}
	return all
}

// handshake waits for the first byte of a member, because with TLS 1.3 a client learns only
// then that its certificate was refused. HTTP/2 begins with one of the server's.
func (c *Client) handshake(ctx context.Context, endpoint string) error {
	at, err := url.Parse(endpoint)
	if err != nil || at.Scheme != "https" {
		return err
	}
	config := c.o.TLS.Clone()
	config.NextProtos = []string{"h2"}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", at.Host)
	if err != nil {
		return err
	}
	defer conn.Close()
	limit, _ := ctx.Deadline()
	_ = conn.SetReadDeadline(limit)
	_, err = conn.Read(make([]byte, 1))
	return err
}
