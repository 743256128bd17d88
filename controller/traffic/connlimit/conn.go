package connlimit

import (
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

var (
	// errNoTurn ends a handshake that waited for its turn for too long.
	errNoTurn = errors.New("the controller is busy with other handshakes")
	// errGone ends one that the client has given up.
	errGone = errors.New("the client has closed the connection")
)

// Read notes that something has come.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.limiter.moved(c, false)
	}
	return n, err
}

// Write notes that the next may go: all before it has gone. The first that goes is the
// server's part of the handshake, which ends the turn: the client has to move next.
func (c *conn) Write(p []byte) (int, error) {
	c.endTurn()
	c.limiter.moved(c, false)
	return c.Conn.Write(p)
}

// Close gives the place to others.
func (c *conn) Close() error {
	c.closed.Do(func() {
		c.limiter.mu.Lock()
		defer c.limiter.mu.Unlock()
		c.limiter.remove(c)
	})
	return c.Conn.Close()
}

// takeTurn waits until the handshake may be computed. One that the client has given up
// meanwhile is not computed: it would take the time in which the next clients wait for
// too long, and give up in turn.
func (c *conn) takeTurn(done <-chan struct{}) error {
	c.limiter.moved(c, true)
	c.limiter.waiting.Add(1)
	defer c.limiter.waiting.Add(-1)
	limit := time.NewTimer(c.limiter.Handshake)
	defer limit.Stop()
	select {
	case c.limiter.turns <- struct{}{}:
		c.turn = true
		if gone(c.Conn) {
			return errGone
		}
		return nil
	case <-limit.C:
	case <-done:
	}
	return errNoTurn
}

func (c *conn) endTurn() {
	if c.turn {
		c.turn = false
		<-c.limiter.turns
	}
}

// gone reports whether the peer has closed a connection whose bytes have all been read.
func gone(c net.Conn) bool {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	err = raw.Read(func(fd uintptr) bool {
		n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		closed = n == 0 && err == nil || errors.Is(err, unix.ECONNRESET)
		return true
	})
	return closed || err != nil
}

// abort resets a connection: nothing of it lingers in the kernel.
func abort(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // then it closes the slower way
	}
	c.Close()
}
