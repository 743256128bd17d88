package lab

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/exec"

	"github.com/nodehitch/nodehitch/e2e/netns"
)

var (
	// Gateway is the lab's own address on its bridge, where a controller under
	// test listens. Machines see the lab there; it routes nowhere.
	Gateway = netip.MustParseAddr("10.10.0.1")
	// Subnet of every lab. Each lab has it in a namespace of its own, so that
	// two labs, or the host's real networks, never meet.
	Subnet = netip.MustParsePrefix("10.10.0.0/24")
)

const (
	bridge = "br0"
	// bridgeAddress is from the locally administered range.
	bridgeAddress = "02:00:00:00:00:01"
)

func (l *Lab) netns() string { return "nodehitch-" + l.id }

func (l *Lab) openNetwork(context.Context) error {
	ns := l.netns()
	err := l.ledger.make(entry{Kind: kindNetns, Name: ns}, func() error {
		return run("ip", "netns", "add", ns)
	})
	if err != nil {
		return fmt.Errorf("making the lab's network: %w", err)
	}
	for _, args := range [][]string{
		{"-n", ns, "link", "set", "lo", "up"},
		// A bridge without an address of its own takes the lowest of its ports' addresses, so
		// that it has another when a machine comes or goes, and the others do not find it.
		{"-n", ns, "link", "add", bridge, "address", bridgeAddress, "type", "bridge"},
		{"-n", ns, "addr", "add", netip.PrefixFrom(Gateway, Subnet.Bits()).String(), "dev", bridge},
		{"-n", ns, "link", "set", bridge, "up"},
	} {
		if err := run(append([]string{"ip"}, args...)...); err != nil {
			return fmt.Errorf("making the lab's network: %w", err)
		}
	}
	return nil
}

// AddAddress gives the lab itself another address on its bridge, with the network
// that it is in, such as 192.168.0.20/24: for servers whose address a test does
// not choose. Machines reach it that have an address in the same network.
func (l *Lab) AddAddress(_ context.Context, p netip.Prefix) error {
	// An IPv6 address is of use at once, not after its check for duplicates.
	return run("ip", "-n", l.netns(), "addr", "add", p.String(), "dev", bridge, "nodad")
}

// Command is exec.CommandContext for a program of the host that runs inside
// the lab's network: a controller under test, curl, hitchctl. Its pid is the
// program's own. The caller starts and waits for it; Close ends it if it still runs.
func (l *Lab) Command(ctx context.Context, argv ...string) *exec.Cmd {
	// Not `ip netns exec`: that remounts /sys and hides the control groups.
	return exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + netns.Path(l.netns()), "--"}, argv...)...)
}

// Listen is net.Listen inside the lab's network, for servers that are part of
// the test itself. Address must be numeric, such as "10.10.0.1:9890".
func (l *Lab) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	return netns.Do(l.netns(), func() (net.Listener, error) {
		return new(net.ListenConfig).Listen(ctx, network, address)
	})
}

// Dial is net.Dial inside the lab's network, in the shape of
// http.Transport.DialContext. Address must be numeric.
func (l *Lab) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return netns.Do(l.netns(), func() (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	})
}
