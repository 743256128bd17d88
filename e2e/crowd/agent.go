package crowd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/nodehitch/nodehitch/agent/connection/identity"
	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/daemon"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/shared/api"
)

// agent is the product's daemon on a machine that is a folder, and its only step.
type agent struct {
	counter *counter
	daemon  *daemon.Daemon
	digest  string

	// statusFile is where the daemon says whether the controller answers; read is the
	// newest that was read, which said so if answered.
	statusFile string
	read       os.FileInfo
	answered   bool
	// contact is when the controller has answered last, by that file; longest is the longest
	// time between two answers since the last tally.
	contact time.Time
	longest time.Duration
}

// newAgent prepares an agent that calls from an address of its own, as machines do.
func newAgent(o Order, m Member, c *counter, number int) (*agent, error) {
	root := filepath.Join(o.Dir, m.ID)
	cloudInit := filepath.Join(root, "run/cloud-init/instance-data.json")
	if err := os.MkdirAll(filepath.Dir(cloudInit), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(cloudInit, []byte(`{"v1":{"instance_id":"`+m.ID+`"}}`), 0o600); err != nil {
		return nil, err
	}
	cfg := o.Config
	cfg.JoinToken, cfg.StateDirectory = m.Token, filepath.Join(root, "state")
	if len(m.URLs) > 0 {
		cfg.ControllerURLs = m.URLs
	}
	directory, err := state.Open(cfg.StateDirectory)
	if err != nil {
		return nil, err
	}
	n, own := o.From+number, o.Network.Addr().As4()
	dialer := &net.Dialer{Timeout: 10 * time.Second,
		LocalAddr: &net.TCPAddr{IP: net.IPv4(own[0], own[1], byte(n/250), byte(1+n%250))}}
	a := &agent{counter: c, statusFile: filepath.Join(root, "status.json")}
	a.daemon = daemon.New(daemon.Options{
		Config: &cfg, State: directory, Machine: identity.At(root, "http://127.0.0.1:9/"),
		Engine:     func(string) *converge.Engine { return converge.New(a) },
		StatusFile: a.statusFile, LockFile: filepath.Join(root, "lock"),
		Notify: func(string) {}, Log: slog.New(logHandler{a}),
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			return c.dialed(conn, err), err
		},
	})
	return a, nil
}

func (a *agent) run(ctx context.Context) {
	if err := a.daemon.Run(ctx); err != nil {
		a.countError("ended: " + err.Error())
	}
}

// Condition makes the agent a step: the one that every worker's document calls for.
func (a *agent) Condition() string { return api.ConditionRegistriesConnected }

// Plan notes which document is in force; the machine is always what it should be.
func (a *agent) Plan(_ context.Context, doc *api.NodeConfig) (converge.Plan, error) {
	digest := doc.Digest()
	a.counter.moved(a.digest, digest)
	a.digest = digest
	return converge.Plan{Reason: api.ReasonRemoved}, nil
}

// look reads the status file if there is another one: there are thousands of agents.
func (a *agent) look() error {
	now, err := os.Stat(a.statusFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case os.SameFile(a.read, now) && a.read.ModTime().Equal(now.ModTime()):
		return nil
	}
	s, err := status.Load(a.statusFile)
	if err != nil {
		return err
	}
	a.read, a.answered = now, s.Controller.Connected
	if s.Controller.LastContact != nil {
		a.contact = *s.Controller.LastContact
	}
	return nil
}

// logHandler counts errors and enrollments in the daemon's log.
type logHandler struct{ a *agent }

func (h logHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (h logHandler) WithAttrs([]slog.Attr) slog.Handler               { return h }
func (h logHandler) WithGroup(string) slog.Handler                    { return h }

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(attr slog.Attr) bool {
		switch {
		case attr.Key == "error" && r.Level >= slog.LevelWarn:
			h.a.countError(fmt.Sprintf("%s: %s", r.Message, attr.Value))
		case attr.Key == "event" && attr.Value.String() == api.EventNodeEnrolled:
			h.a.countEnrollment()
		}
		return true
	})
	return nil
}

func (a *agent) countError(text string) {
	a.counter.mu.Lock()
	defer a.counter.mu.Unlock()
	if a.counter.since.Errors == nil {
		a.counter.since.Errors = map[string]int{}
	}
	a.counter.since.Errors[text]++
}

func (a *agent) countEnrollment() {
	a.counter.mu.Lock()
	defer a.counter.mu.Unlock()
	a.counter.since.Enrolled++
}
