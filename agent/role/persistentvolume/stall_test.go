package persistentvolume_test

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// gate is on the way to the API server, as a virtual address is. If it is closed, it drops
// what comes on existing connections and tells neither side.
type gate struct {
	net.Listener
	mu   sync.Mutex
	lost chan struct{} // of the connections of now: closed when they are lost
}

func newGate(t *testing.T, to string) *gate {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{Listener: l, lost: make(chan struct{})}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := new(net.Dialer).DialContext(t.Context(), "tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			g.mu.Lock()
			lost := g.lost
			g.mu.Unlock()
			go pass(in, out, lost)
			go pass(out, in, lost)
		}
	}()
	return g
}

// pass goes on reading when the connection is lost, as a network does.
func pass(from, to net.Conn, lost chan struct{}) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		select {
		case <-lost:
			continue
		default:
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (g *gate) lose() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.lost)
	g.lost = make(chan struct{})
}

// The address of the API server moves to another master: nothing ends the connections.
func TestALostConnectionIsNotUsedAgain(t *testing.T) {
	r := master(t, "pv1")
	g := newGate(t, r.api.Listener.Addr().String())
	r.setKubeconfig(strings.Replace(r.api.kubeconfig(), r.api.Listener.Addr().String(), g.Addr().String(), 1))
	r.restart(2 * time.Second)
	r.expect("True Registered")
	g.lose()
	r.expect("False ClusterNotInstalled", "does not answer")
	r.expect("True Registered")
}

// A kubeconfig that is renewed every day must not cost a connection a day.
func TestAReplacedKubeconfigLeavesNoConnectionBehind(t *testing.T) {
	r := master(t, "pv1")
	r.expect("True Registered")
	r.setKubeconfig(r.api.kubeconfig() + "preferences: {colors: true}\n")
	r.expect("True Registered")
	select {
	case <-r.api.closed:
	case <-time.After(30 * time.Second):
		t.Error("the connection of before is still there")
	}
}
