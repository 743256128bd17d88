package agentfault

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
)

// forwarder stands between the agents and the controller: it passes bytes on, as a proxy
// or a load balancer of layer 4 does, until the test makes it fail.
type forwarder struct {
	listener net.Listener
	to       string

	// idle is how long a connection may be silent; 0 = for ever. With forget it is then
	// dropped without telling the agent, instead of closed.
	idle   time.Duration
	forget bool
	// cutAfter is how many bytes of the controller pass, on all connections together,
	// before one of them is reset; negative = all.
	cutAfter atomic.Int64
	// accepted connections, of all time.
	accepted atomic.Int64
	// stop ends what serve has begun.
	stop func()
}

// newForwarder listens; to is where it forwards to, once it serves.
func newForwarder(t *testing.T) *forwarder {
	t.Helper()
	f := &forwarder{}
	f.cutAfter.Store(-1)
	f.listen(t, "127.0.0.1:0")
	return f
}

func (f *forwarder) listen(t *testing.T, address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	f.listener = l
}

func (f *forwarder) url() string { return "https://" + f.listener.Addr().String() }

// between is a controller that agents know by the forwarder's address.
func (f *forwarder) between(t *testing.T, pollSeconds string) *workerVNF {
	t.Helper()
	f.to = loopback.FreeAddress(t)
	w := newWorkerVNF(t, 1, loopback.Options{Address: f.to, Settings: map[string]string{
		"advertiseUrls": "[" + f.url() + "]", "pollSeconds": pollSeconds, "convergeSeconds": "10",
	}})
	f.serve(t)
	return w
}

func (f *forwarder) serve(t *testing.T) {
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	group.Go(func() {
		for {
			down, err := f.listener.Accept()
			if err != nil {
				return
			}
			f.accepted.Add(1)
			group.Go(func() { f.forward(ctx, down.(*net.TCPConn)) })
		}
	})
	f.stop = sync.OnceFunc(func() {
		cancel()
		_ = f.listener.Close() // ends Accept
		group.Wait()
	})
	t.Cleanup(f.stop)
}

// forward is the life of one connection.
func (f *forwarder) forward(ctx context.Context, down *net.TCPConn) {
	defer down.Close() //nolint:errcheck // its end is what is wanted
	dialled, err := new(net.Dialer).DialContext(ctx, "tcp", f.to)
	if err != nil {
		return
	}
	up := dialled.(*net.TCPConn)
	defer up.Close() //nolint:errcheck // as above
	over, end := context.WithCancel(ctx)
	defer end()
	silent := time.AfterFunc(time.Hour, func() {
		if f.forget {
			_ = up.SetLinger(0)
			_ = up.Close() // the controller learns of it, the agent does not
			return
		}
		end()
	})
	defer silent.Stop()
	heard := func() {
		if f.idle > 0 {
			silent.Reset(f.idle)
		}
	}
	heard()
	go func() {
		defer end()
		pass(up, down, func(int) bool { heard(); return true })
	}()
	go func() {
		lived := pass(down, up, func(n int) bool {
			heard()
			if left := f.cutAfter.Load(); left >= 0 && f.cutAfter.Add(-int64(n)) < 0 {
				f.cutAfter.Store(-1)
				_ = down.SetLinger(0) // a reset, and what is not sent yet is lost
				return false
			}
			return true
		})
		if lived || !f.forget {
			end()
		}
	}()
	<-over.Done()
}

// pass copies until an end or an error; each piece may be stopped. It reports whether
// it was stopped.
func pass(to io.Writer, from io.Reader, may func(n int) bool) (stopped bool) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !may(n) {
			_, _ = to.Write(buffer[:n/2])
			return true
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return false
			}
		}
		if err != nil {
			return false
		}
	}
}
