package tacker

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// door is where the machine of Tacker reaches the controller. Each call of the client is a
// connection of its own, so calls are counted without being read.
type door struct {
	listener net.Listener
	to       string
	mu       sync.Mutex
	calls    int
	// halt is asked before a call goes on, with its number since it was set. It returns
	// false to close the connection instead.
	halt func(call int) bool
	// sent is how many bytes have passed to the controller since; reached is called once there
	// are limit of them.
	sent, limit int64
	reached     func()
}

func newDoor(t *testing.T, controller string) *door {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return openDoor(t, controller, listener)
}

// openDoor is newDoor at another place.
func openDoor(t *testing.T, controller string, listener net.Listener) *door {
	t.Helper()
	to, err := url.Parse(controller)
	if err != nil {
		t.Fatal(err)
	}
	d := &door{to: to.Host, listener: listener}
	t.Cleanup(func() { _ = d.listener.Close() })
	go func() {
		for {
			c, err := d.listener.Accept()
			if err != nil {
				return
			}
			go d.pass(t.Context(), c)
		}
	}()
	return d
}

func (d *door) url() string { return "https://" + d.listener.Addr().String() }

// before makes halt be asked from the next call on, which has number 1; nil lets all pass.
func (d *door) before(halt func(call int) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls, d.halt = 0, halt
	d.sent, d.reached = 0, nil
}

// after makes reached be called once so many bytes have passed; no other one passes until it
// returns.
func (d *door) after(bytes int64, reached func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sent, d.limit, d.reached = 0, bytes, reached
}

// made is how many calls were made since before was called.
func (d *door) made() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

// passed is how many bytes have passed since before or after was called.
func (d *door) passed() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sent
}

// Write counts bytes that pass.
func (d *door) Write(p []byte) (int, error) {
	d.mu.Lock()
	d.sent += int64(len(p))
	var reached func()
	if d.reached != nil && d.sent >= d.limit {
		reached, d.reached = d.reached, nil
	}
	d.mu.Unlock()
	if reached != nil {
		reached()
	}
	return len(p), nil
}

func (d *door) pass(ctx context.Context, c net.Conn) {
	defer c.Close()
	d.mu.Lock()
	d.calls++
	call, halt := d.calls, d.halt
	d.mu.Unlock()
	if halt != nil && !halt(call) {
		return
	}
	controller, err := (&net.Dialer{}).DialContext(ctx, "tcp", d.to)
	if err != nil {
		return // the client sees a connection that is closed
	}
	defer controller.Close()
	go func() {
		_, _ = io.Copy(io.MultiWriter(d, controller), c)
		_ = controller.Close()
	}()
	_, _ = io.Copy(c, controller)
}
