package loopback

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
)

func TestAFreeAddressStaysReserved(t *testing.T) {
	address := FreeAddress(t)
	for range 2 { // a restart listens again
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		// By the same rule the kernel gives a port to a program that asks for any.
		if socket, err := hold(netip.MustParseAddrPort(address), false); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("another program can have %s (%v)", address, err)
			_ = syscall.Close(socket)
		}
	}
}
