package api

import (
	"context"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/controller/connlimit"
)

type peerKey struct{}

// withPeer notes which user is at the other end of a unix socket connection, as
// the kernel says (SO_PEERCRED). It is a ConnContext of http.Server.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	ctx = connlimit.Context(ctx, conn)
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
	if err != nil || credErr != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, *cred)
}

// localOperator reports whether the peer is root of this machine, or the user that
// the controller runs as: both can read the store and its key anyway.
func localOperator(ctx context.Context) (who string, ok bool) {
	cred, ok := ctx.Value(peerKey{}).(unix.Ucred)
	if !ok || (cred.Uid != 0 && cred.Uid != uint32(os.Geteuid())) {
		return "", false
	}
	return fmt.Sprintf("uid %d of this machine", cred.Uid), true
}
