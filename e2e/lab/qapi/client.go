// Package qapi is a client of the two JSON channels of a QEMU machine: the
// monitor, which commands the machine (QMP), and the guest agent inside it
// (QGA). Both answer one line per command; the agent's end of the line comes
// and goes with the guest, so that it has to be synchronised first.
package qapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Error is a command that QEMU or the agent has refused.
type Error struct {
	Command string `json:"-"`
	Class   string `json:"class"`
	Desc    string `json:"desc"`
}

func (e *Error) Error() string { return e.Command + ": " + e.Desc }

// Event is something that the monitor has told without being asked.
type Event struct {
	Name string
	Data json.RawMessage
}

// Client is a connection to one channel. Its methods may be called from
// several goroutines.
type Client struct {
	conn net.Conn
	last atomic.Uint64 // id of the newest command

	mu      sync.Mutex
	waiting map[uint64]chan<- message
	watches map[*watch]struct{}
	broken  error
}

type watch struct {
	name   string
	events chan Event
}

// message is any line of either channel.
type message struct {
	ID     *uint64         `json:"id"`
	Return json.RawMessage `json:"return"`
	Error  *Error          `json:"error"`
	Event  string          `json:"event"`
	Data   json.RawMessage `json:"data"`
}

// DialMonitor connects to a QMP socket and ends its negotiation.
func DialMonitor(ctx context.Context, socket string) (*Client, error) {
	c, err := dial(ctx, socket)
	if err != nil {
		return nil, err
	}
	if err := c.Do(ctx, "qmp_capabilities", nil, nil); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// DialAgent connects to the host's end of an agent's channel; whether there is
// an agent at the other end, Sync tells.
func DialAgent(ctx context.Context, socket string) (*Client, error) {
	return dial(ctx, socket)
}

func dial(ctx context.Context, socket string) (*Client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn, waiting: map[uint64]chan<- message{}, watches: map[*watch]struct{}{}}
	go c.read()
	return c, nil
}

// Close ends the connection; what waits on it fails.
func (c *Client) Close() { _ = c.conn.Close() }

// Do sends a command and decodes its answer into result, which may be nil. A
// refusal is an *Error. When ctx ends first, the answer is dropped whenever it comes.
func (c *Client) Do(ctx context.Context, command string, arguments, result any) error {
	id := c.last.Add(1)
	answer := make(chan message, 1)
	if err := c.expect(id, answer); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	defer c.forget(id)
	if err := c.send(ctx, nil, command, arguments, id); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return fmt.Errorf("%s: %w", command, c.brokenBy())
		case m.Error != nil:
			m.Error.Command = command
			return m.Error
		case result == nil:
			return nil
		}
		if err := json.Unmarshal(m.Return, result); err != nil {
			return fmt.Errorf("%s: reading its answer: %w", command, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", command, context.Cause(ctx))
	}
}

// Sync waits until an agent answers. It drops whatever half-sent lines the
// channel holds of an earlier boot, as guest-sync-delimited is made for (QEMU,
// "QEMU Guest Agent Protocol Reference").
func (c *Client) Sync(ctx context.Context) error {
	for {
		patience, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		err := c.sync(patience)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if broken := c.brokenBy(); broken != nil {
			return broken
		}
	}
}

func (c *Client) sync(ctx context.Context) error {
	id := c.last.Add(1)
	answer := make(chan message, 1)
	if err := c.expect(id, answer); err != nil {
		return err
	}
	defer c.forget(id)
	// 0xFF is no JSON: the agent's parser gives up what it was in the middle of.
	if err := c.send(ctx, []byte{0xff}, "guest-sync-delimited", map[string]uint64{"id": id}, id); err != nil {
		return err
	}
	select {
	case m, ok := <-answer:
		if !ok {
			return c.brokenBy()
		}
		if m.Error != nil {
			return m.Error
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Client) send(ctx context.Context, prefix []byte, command string, arguments any, id uint64) error {
	line, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
		ID        uint64 `json:"id"`
	}{command, arguments, id})
	if err != nil {
		return err
	}
	deadline, _ := ctx.Deadline() // zero, that is none, without one
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.conn.SetWriteDeadline(deadline); err != nil {
		return err
	}
	_, err = c.conn.Write(append(append(prefix, line...), '\n'))
	return err
}
