package loopback

import (
	"net/netip"
	"syscall"
	"testing"
)

// FreeAddress is a port of 127.0.0.1 that is free and stays so until the test ends, for a
// program that listens there later, also again after a restart.
func FreeAddress(t testing.TB) string {
	t.Helper()
	address, release, err := Reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return address
}

// Reserve is FreeAddress until release is called or this process ends. A socket is bound to the
// port and does not listen: so the kernel does not give it to a program that asks for any port,
// and still lets a listener have it that sets SO_REUSEADDR (socket(7)), as Go's do.
func Reserve() (address string, release func(), err error) {
	socket, err := hold(netip.MustParseAddrPort("127.0.0.1:0"), true)
	if err != nil {
		return "", nil, err
	}
	release = func() { _ = syscall.Close(socket) }
	name, err := syscall.Getsockname(socket)
	if err != nil {
		release()
		return "", nil, err
	}
	at := name.(*syscall.SockaddrInet4)
	return netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)).String(), release, nil
}

// hold binds a socket that does not listen.
func hold(address netip.AddrPort, reuse bool) (socket int, err error) {
	socket, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if reuse {
		err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	}
	if err == nil {
		err = syscall.Bind(socket, &syscall.SockaddrInet4{Addr: address.Addr().As4(), Port: int(address.Port())})
	}
	if err != nil {
		_ = syscall.Close(socket)
	}
	return socket, err
}
