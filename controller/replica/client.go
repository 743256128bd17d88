package replica

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// streams is how many requests share a connection. More would wait for each other when it
	// loses a packet; 10,000 held polls are ten connections.
	streams = 1000
	// bufferOfStream and bufferOfConnection bound what one side has received and not read yet:
	// 64 uploads may stand still before they hinder the other requests of the connection.
	bufferOfStream     = 256 << 10
	bufferOfConnection = 64 * bufferOfStream

	dialLimit = 3 * time.Second
	// A replica that is silent for so long is asked whether it is there, and given up if it
	// does not say so.
	silence, pingLimit = 4 * time.Second, 3 * time.Second
)

// Client makes requests to other replicas. It is an http.RoundTripper that never makes a
// request twice. It makes one connection to a replica at a time, and only if the requests in
// flight need another one; http.Transport makes more.
type Client struct {
	transport *http.Transport

	mu    sync.Mutex
	hosts map[string]*connections
}

// connections are those to one replica.
type connections struct {
	open    []*http.ClientConn
	dialing *dial // nil if none is made
}

// dial is a connection that is being made.
type dial struct {
	done chan struct{}
	err  error
}

// NewClient trusts the replicas of this controller.
func NewClient(t *Trust) *Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	return &Client{hosts: map[string]*connections{}, transport: &http.Transport{TLSClientConfig: t.Client(), Protocols: protocols,
		DisableCompression: true,
		HTTP2:              &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: pingLimit, MaxReceiveBufferPerStream: bufferOfStream}}}
}

// errNotSent: nothing of a request has left, so nothing of it can have been done.
var errNotSent = errors.New("there is no connection to that replica")

// RoundTrip makes the request on a connection that has room for it.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	conn, err := c.reserve(r.Context(), r.URL.Host)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // nothing was read of it
		}
		return nil, errors.Join(errNotSent, err)
	}
	return conn.RoundTrip(r)
}

func (c *Client) reserve(ctx context.Context, host string) (*http.ClientConn, error) {
	for {
		conn, made := c.find(host)
		if conn != nil {
			return conn, nil
		}
		select {
		case <-made.done:
			if made.err != nil {
				return nil, made.err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// find returns a connection with a reserved place, or the one that is being made.
func (c *Client) find(host string) (*http.ClientConn, *dial) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.hosts[host]
	if h == nil {
		h = &connections{}
		c.hosts[host] = h
	}
	h.open = slices.DeleteFunc(h.open, func(conn *http.ClientConn) bool { return conn.Err() != nil })
	for _, conn := range h.open {
		if conn.Reserve() == nil {
			return conn, nil
		}
	}
	if h.dialing == nil {
		h.dialing = &dial{done: make(chan struct{})}
		go c.dial(host, h, h.dialing)
	}
	return nil, h.dialing
}

func (c *Client) dial(host string, h *connections, d *dial) {
	ctx, cancel := context.WithTimeout(context.Background(), dialLimit)
	defer cancel()
	conn, err := c.transport.NewClientConn(ctx, "https", host)
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.err = err; err == nil {
		h.open = append(h.open, conn)
	}
	h.dialing = nil
	close(d.done)
}

// Close ends all connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.hosts {
		for _, conn := range h.open {
			_ = conn.Close()
		}
		h.open = nil
	}
}
