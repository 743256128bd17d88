package etcdtest

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Proxy is a network between a client and a member of etcd that can be cut. A connection over
// which something was lost is closed when the network is whole again.
type Proxy struct {
	// URL for the client.
	URL string

	target   string
	listener net.Listener

	mu    sync.Mutex
	lost  map[Direction]bool
	late  bool
	until time.Time
	links map[*link]bool
	again chan struct{} // closed at the next connection, nil if nobody waits for it
	done  sync.WaitGroup
}

// Direction is where bytes go.
type Direction string

// The directions.
const (
	ToEtcd   Direction = "to etcd"
	ToClient Direction = "to the client"
)

type link struct {
	client, etcd net.Conn
	damaged      bool
	kept         []byte
}

// keep is shorter than what a client waits for before it takes back what it has asked.
const keep = time.Second

// NewProxy is a proxy before a member, given by its URL, until the test ends.
func NewProxy(t testing.TB, member string) *Proxy {
	t.Helper()
	at, err := url.Parse(member)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // the test ends it
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{URL: at.Scheme + "://" + listener.Addr().String(), target: at.Host, listener: listener, lost: map[Direction]bool{}, links: map[*link]bool{}}
	p.done.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		for l := range p.links {
			l.close()
		}
		p.mu.Unlock()
		p.done.Wait()
	})
	return p
}

// Lose loses every byte in these directions from now on; nobody is told.
func (p *Proxy) Lose(directions ...Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range directions {
		p.lost[d] = true
	}
}

// Delay is Lose of what goes to etcd, but what the client sends in the first second reaches
// etcd at Heal. Answers to what it has sent before arrive.
func (p *Proxy) Delay() {
	p.Lose(ToEtcd)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late, p.until = true, time.Now().Add(keep)
}

// Break closes every connection, and waits until the client has made a new one. By then the
// client has given up its requests on the old ones.
func (p *Proxy) Break(t testing.TB) {
	t.Helper()
	again := make(chan struct{})
	p.mu.Lock()
	p.again = again
	for l := range p.links {
		l.close()
	}
	p.mu.Unlock()
	select {
	case <-again:
	case <-time.After(30 * time.Second):
		t.Fatal("the client has made no connection to etcd for 30 s after the last one was closed")
	}
}

// Heal makes the network whole again.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.lost)
	p.late = false
	for l := range p.links {
		if len(l.kept) > 0 {
			_, _ = l.etcd.Write(l.kept)
			l.kept = nil
			continue // etcd forgets what a connection has asked if it is closed
		}
		if l.damaged {
			l.close()
		}
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		etcd, err := net.Dial("tcp", p.target) //nolint:noctx // on this machine
		if err != nil {
			_ = client.Close()
			continue
		}
		l := &link{client: client, etcd: etcd}
		p.mu.Lock()
		p.links[l] = true
		if p.again != nil {
			close(p.again)
			p.again = nil
		}
		p.mu.Unlock()
		p.done.Go(func() { p.carry(l, ToEtcd, l.etcd, l.client) })
		p.done.Go(func() { p.carry(l, ToClient, l.client, l.etcd) })
	}
}

func (p *Proxy) carry(l *link, way Direction, to io.Writer, from io.Reader) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err == nil && !p.loses(l, way, buffer[:n]) {
			_, err = to.Write(buffer[:n])
		}
		if err != nil {
			p.ended(l)
			return
		}
	}
}

// ended closes both ends, unless there is something that etcd has to get yet.
func (p *Proxy) ended(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(l.kept) == 0 {
		l.close()
		delete(p.links, l)
	}
}

func (p *Proxy) loses(l *link, way Direction, bytes []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.late && way == ToEtcd && time.Now().Before(p.until) {
		l.kept = append(l.kept, bytes...)
	}
	l.damaged = l.damaged || p.lost[way]
	return p.lost[way]
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.etcd.Close()
}
