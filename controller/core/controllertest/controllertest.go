// Package controllertest is a controller without its listener, for tests: what the
// program itself ties together, over a real CA in a directory of the test, a real store as
// storetest opens it, and a clock that only the test moves. It is never linked into a binary.
package controllertest

import (
	"bytes"
	"cmp"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/controller/backup"
	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/core"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/storetest"
	"github.com/nodehitch/nodehitch/controller/telemetry"
)

// T is a test: testing.TB has it, and rapid.T but for the directory.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
	TempDir() string
	Cleanup(func())
}

// Options of a controller. The zero value is good.
type Options struct {
	// Now is the time; nil takes that of Clock.
	Now func() time.Time
	// Log is where it logs; nil discards.
	Log *slog.Logger
	// Discovers: servers that no topology names are looked for in the Source.
	Discovers bool
	// Shared gives each Open the database that it shares; nil for the store that storetest opens.
	Shared func() *store.Shared
}

// Controller is the services, and what they were opened with.
type Controller struct {
	*core.Core
	// Config is used from the next Open on.
	Config config.Config
	// Source is where topologies come from, used from the next Open on: at first the
	// request alone.
	Source  stack.Source
	Metrics *telemetry.Metrics
	Clock   *Clock

	t T
	o Options
	// hub is kept from one Open to the next, so that waits are woken at the next start, too.
	hub *notify.Hub
}

// New is a controller on an empty data directory. It is closed at the end of the test.
func New(t T, o Options) *Controller {
	t.Helper()
	c := &Controller{Config: config.Default(), Source: stack.Inline{}, Metrics: telemetry.New("test"), hub: new(notify.Hub),
		Clock: &Clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, t: t, o: o}
	if c.o.Now == nil {
		c.o.Now = c.Clock.Now
	}
	c.o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	c.Config.DataDirectory = t.TempDir()
	c.Config.SealKeyFile = filepath.Join(c.Config.DataDirectory, "seal.key")
	c.Config.AgentDirectory = c.Config.DataDirectory
	c.Config.Names, c.Config.AdvertiseURLs = []string{"127.0.0.1"}, []string{"https://127.0.0.1"}
	c.Config.MaxFileBytes = 1 << 20
	c.Open()
	t.Cleanup(func() {
		if err := c.Store.Close(); err != nil {
			t.Fatalf("closing the store: %v", err)
		}
	})
	return c
}

// Open starts it on what is in the data directory; one that is open was killed.
func (c *Controller) Open() {
	c.t.Helper()
	var err error
	if c.Core != nil {
		err = c.Store.Close()
	}
	var shared *store.Shared
	if err == nil {
		shared = c.shared()
	}
	if err == nil {
		c.Core, err = core.Open(core.Options{Config: c.Config, Shared: shared, Source: c.Source, Discovers: c.o.Discovers, Hub: c.hub, Metrics: c.Metrics, Progress: func() {}, Now: c.o.Now, Log: c.o.Log})
	}
	if err != nil {
		c.t.Fatalf("opening the controller: %v", err)
	}
}

func (c *Controller) shared() *store.Shared {
	c.t.Helper()
	if c.o.Shared != nil {
		return c.o.Shared()
	}
	return storetest.Shared(c.t, c.StorePath())
}

// StorePath is its store's file with bbolt.
func (c *Controller) StorePath() string {
	return filepath.Join(c.Config.DataDirectory, backup.StoreFile)
}

// Content is all that its store has written, in plain bytes.
func (c *Controller) Content() []byte {
	c.t.Helper()
	return storetest.Content(c.t, c.StorePath())
}

// Replace puts back what Content has returned, for the next Open.
func (c *Controller) Replace(content []byte) {
	c.t.Helper()
	storetest.Replace(c.t, c.StorePath(), content)
}

// Commits differs after a commit.
func (c *Controller) Commits() string {
	c.t.Helper()
	return storetest.Commits(c.t, c.StorePath())
}

// Clock is the controller's.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// Now is the controller's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set puts the clock to a time.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// Advance puts it forward.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Log is a log that can be read while it is written. The zero Log is empty.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
