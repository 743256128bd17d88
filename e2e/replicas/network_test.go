package replicas

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/netns"
)

// network is a switch with a cable to each host. All of it is in network namespaces whose
// names no other run has, and goes with the test.
type network struct {
	t testing.TB
	// prefix of the namespaces' names; the switch has it alone.
	prefix string
}

// host is a network namespace with one address, and for one with many machines a /16 from
// which those call.
type host struct {
	network *network
	name    string
	address netip.Addr
	many    netip.Prefix
}

func newNetwork(t testing.TB) *network {
	t.Helper()
	loopback.RequireRoot(t)
	var random [3]byte
	_, _ = rand.Read(random[:])
	n := &network{t: t, prefix: fmt.Sprintf("nhreplicas-%d-%x", os.Getpid(), random)}
	n.add(n.prefix)
	n.run("ip", "-n", n.prefix, "link", "add", "br0", "address", "02:00:00:00:00:01", "type", "bridge")
	n.run("ip", "-n", n.prefix, "link", "set", "br0", "up")
	return n
}

func (n *network) add(namespace string) {
	n.t.Helper()
	n.run("ip", "netns", "add", namespace)
	n.t.Cleanup(func() { n.run("ip", "netns", "delete", namespace) })
	n.run("ip", "-n", namespace, "link", "set", "lo", "up")
}

func (n *network) run(argv ...string) {
	n.t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil { //nolint:noctx // also used when the test's context is over
		n.t.Errorf("%v: %v: %s", argv, err, out)
	}
}

// host adds one with the address 10.20.0.<last>; if many is not 0, also 10.<many>.0.0/16.
func (n *network) host(name string, last, many byte) *host {
	n.t.Helper()
	h := &host{network: n, name: name, address: netip.AddrFrom4([4]byte{10, 20, 0, last})}
	ns := h.namespace()
	n.add(ns)
	n.run("ip", "-n", n.prefix, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", ns)
	n.run("ip", "-n", n.prefix, "link", "set", name, "master", "br0", "up")
	n.run("ip", "-n", ns, "addr", "add", h.address.String()+"/24", "dev", "eth0")
	n.run("ip", "-n", ns, "link", "set", "eth0", "up")
	if many != 0 {
		h.many = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, many, 0, 0}), 16)
		n.run("ip", "-n", ns, "route", "add", "local", h.many.String(), "dev", "lo")
	}
	return h
}

// knows lets h answer the many machines of other.
func (h *host) knows(other *host) {
	h.network.t.Helper()
	h.network.run("ip", "-n", h.namespace(), "route", "add", other.many.String(), "via", other.address.String())
}

func (h *host) namespace() string { return h.network.prefix + "-" + h.name }

// inside is what to put before an argv.
func (h *host) inside() []string {
	return []string{"nsenter", "--net=" + netns.Path(h.namespace()), "--"}
}

func (h *host) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return h.dialFrom(nil)(ctx, network, address)
}

// dialFrom dials from an address of the host's.
func (h *host) dialFrom(source net.Addr) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return netns.Do(h.namespace(), func() (net.Conn, error) {
			return (&net.Dialer{LocalAddr: source, Timeout: 3 * time.Second}).DialContext(ctx, network, address)
		})
	}
}

// machine is the n-th address of the many.
func (h *host) machine(n int) net.Addr {
	a := h.many.Addr().As4()
	return &net.TCPAddr{IP: net.IPv4(a[0], a[1], byte(n/250), byte(1+n%250))}
}

// cut loses every packet between h and each of the others, in both directions, and tells
// nobody. What it returns mends it.
func (h *host) cut(others ...*host) (mend func()) {
	h.network.t.Helper()
	change := func(how string) {
		for _, other := range others {
			for from, to := range map[*host]*host{h: other, other: h} {
				for _, source := range []netip.Prefix{netip.PrefixFrom(from.address, 32), from.many} {
					if source.IsValid() {
						h.network.run(append(to.inside(), "iptables", "-w", how, "INPUT", "-s", source.String(), "-j", "DROP")...)
					}
				}
			}
		}
	}
	change("-A")
	return func() { change("-D") }
}
