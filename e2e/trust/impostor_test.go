package trust

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// impostor answers in place of the controller. It keeps every byte that it
// gets: as it came over the wire, and what it could read of it.
type impostor struct {
	url  string
	stop func()
	// secured says that it speaks TLS. root, PEM, is its own, for a system that
	// trusts it; nil if it has none.
	secured bool
	root    []byte

	mu          sync.Mutex
	connections int
	wire, heard []byte
}

// serve begins to answer on a listener. With tls it speaks TLS, and what it hears
// is what was in it; without, it hears the wire. then, if not nil, continues with a
// connection from which something was heard.
func serve(t testing.TB, l net.Listener, config *tls.Config, then func(net.Conn)) *impostor {
	t.Helper()
	i := &impostor{url: "https://" + l.Addr().String(), secured: config != nil}
	var all sync.WaitGroup
	var open sync.Map
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			open.Store(conn, nil)
			all.Go(func() { defer open.Delete(conn); i.answer(conn, config, then) })
		}
	})
	i.stop = sync.OnceFunc(func() {
		_ = l.Close() // it may be closed already
		open.Range(func(conn, _ any) bool { conn.(net.Conn).Close(); return true })
		all.Wait()
	})
	t.Cleanup(i.stop)
	return i
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (i *impostor) answer(conn net.Conn, config *tls.Config, then func(net.Conn)) {
	defer conn.Close()
	i.mu.Lock()
	i.connections++
	i.mu.Unlock()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	var line net.Conn = &noting{Conn: conn, note: func(b []byte) { i.mu.Lock(); i.wire = append(i.wire, b...); i.mu.Unlock() }}
	if config != nil {
		secured := tls.Server(line, config)
		if secured.HandshakeContext(context.Background()) != nil {
			return
		}
		line = secured
	}
	line = &noting{Conn: line, note: func(b []byte) { i.mu.Lock(); i.heard = append(i.heard, b...); i.mu.Unlock() }}
	if then != nil {
		then(line)
		return
	}
	// A greeting that a client in the clear would take for an answer.
	buffer := make([]byte, 4096)
	for {
		n, err := line.Read(buffer)
		if err != nil {
			return
		}
		if strings.Contains(string(buffer[:n]), "\r\n\r\n") {
			_, _ = line.Write([]byte("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"))
		}
	}
}

// noting notes what is read.
type noting struct {
	net.Conn
	note func([]byte)
}

func (n *noting) Read(b []byte) (int, error) {
	read, err := n.Conn.Read(b)
	n.note(b[:read])
	return read, err
}

// calls is how many connections there were.
func (i *impostor) calls() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.connections
}

// got ends it and is all that it got.
func (i *impostor) got() (connections int, wire, heard string) {
	i.stop()
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.connections, string(i.wire), string(i.heard)
}
