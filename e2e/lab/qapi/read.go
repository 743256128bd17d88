package qapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
)

func (c *Client) expect(id uint64, answer chan<- message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return c.broken
	}
	c.waiting[id] = answer
	return nil
}

func (c *Client) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

func (c *Client) brokenBy() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// read hands lines out until the connection ends.
func (c *Client) read() {
	lines := bufio.NewReaderSize(c.conn, 1<<16)
	var err error
	for err == nil {
		var line []byte
		line, err = lines.ReadBytes('\n')
		// Of a line that a reboot has cut off only the part after the
		// agent's own 0xFF belongs to an answer.
		line = line[bytes.LastIndexByte(line, 0xff)+1:]
		var m message
		if json.Unmarshal(line, &m) == nil {
			c.deliver(m)
		}
	}
	c.fail(fmt.Errorf("the connection to QEMU ended: %w", err))
}

func (c *Client) deliver(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.ID != nil && c.waiting[*m.ID] != nil {
		c.waiting[*m.ID] <- m
		delete(c.waiting, *m.ID)
	}
	for w := range c.watches {
		if m.Event == w.name {
			select {
			case w.events <- Event{m.Event, m.Data}:
			default: // this watch has no reader any more
			}
		}
	}
}

func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = err
	for id, answer := range c.waiting {
		close(answer)
		delete(c.waiting, id)
	}
	for w := range c.watches {
		close(w.events)
		delete(c.watches, w)
	}
}

// Watch collects events of a name from now on; stop ends it. The channel is
// closed when the connection ends.
func (c *Client) Watch(name string) (events <-chan Event, stop func()) {
	w := &watch{name: name, events: make(chan Event, 64)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		close(w.events)
		return w.events, func() {}
	}
	c.watches[w] = struct{}{}
	return w.events, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watches, w)
	}
}
