package files

import (
	"bytes"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// controller serves one file over TLS, with the faults that its fields describe.
type controller struct {
	t       *testing.T
	content []byte
	// The connection is closed after cutAfter bytes of an answer, and falls silent after
	// hangAfter; 0 = never. Each happens once.
	cutAfter, hangAfter int
	// answer replaces the answer, if it is set.
	answer http.HandlerFunc

	mu     sync.Mutex
	paths  []string
	ranges []string
	sent   int
	root   testca.Authority
	server *httptest.Server
}

func serve(t *testing.T, content []byte) *controller {
	c := &controller{t: t, content: content, root: testca.Root(t, "root")}
	c.server = httptest.NewUnstartedServer(c)
	c.server.TLS = &tls.Config{Certificates: []tls.Certificate{c.root.Server(t, time.Now().Add(time.Hour), "127.0.0.1")}}
	c.server.Config.ErrorLog = testca.Quiet
	c.server.StartTLS()
	t.Cleanup(func() { c.server.CloseClientConnections(); c.server.Close() })
	return c
}

func (c *controller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.paths = append(c.paths, r.URL.Path)
	c.ranges = append(c.ranges, r.Header.Get("Range"))
	cut, hang, answer := c.cutAfter, c.hangAfter, c.answer
	c.cutAfter, c.hangAfter = 0, 0
	c.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	out := &counting{ResponseWriter: w, limit: cut + hang, add: func(n int) { c.mu.Lock(); c.sent += n; c.mu.Unlock() }}
	http.ServeContent(out, r, "", time.Time{}, bytes.NewReader(c.content))
	switch {
	case cut > 0:
		panic(http.ErrAbortHandler)
	case hang > 0:
		<-r.Context().Done()
	}
}

// seen is what was requested, and how many bytes were sent.
func (c *controller) seen() ([]string, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.ranges), c.sent
}

// counting sends at most limit bytes, all if it is 0.
type counting struct {
	http.ResponseWriter
	limit, sent int
	add         func(int)
}

func (w *counting) Write(b []byte) (int, error) {
	if w.limit > 0 && w.sent+len(b) > w.limit {
		b = b[:w.limit-w.sent]
	}
	w.add(len(b)) // before the other side can know
	n, err := w.ResponseWriter.Write(b)
	w.sent += n
	if w.limit > 0 && w.sent == w.limit {
		w.ResponseWriter.(http.Flusher).Flush()
		return n, io.ErrShortWrite
	}
	return n, err
}

// store is a new process of the agent on the state in dir.
func (c *controller) store(dir string, urls ...string) *Store {
	l, err := link.New(link.Options{URLs: append(urls, c.server.URL), RootPEM: c.root.PEM(), Pin: client.Pin(c.root.Cert)})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(l.Close)
	s := New(dir, slog.New(slog.DiscardHandler))
	s.Use(l)
	return s
}
