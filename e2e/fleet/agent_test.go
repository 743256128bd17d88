package fleet

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
}

// newAgent prepares an agent that calls from an address of its own, as machines do.
func newAgent(o order, m member, c *counter, number int) (*agent, error) {
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
	directory, err := state.Open(cfg.StateDirectory)
	if err != nil {
		return nil, err
	}
	n := o.From + number
	dialer := &net.Dialer{Timeout: 10 * time.Second,
		LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(n/250), byte(1+n%250))}}
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

// connected says whether the controller has answered the agent's last call. There are
// thousands of agents, so a status file is only read when there is another.
func (a *agent) connected() (bool, error) {
	now, err := os.Stat(a.statusFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case os.SameFile(a.read, now) && a.read.ModTime().Equal(now.ModTime()):
		return a.answered, nil
	}
	s, err := status.Load(a.statusFile)
	a.read, a.answered = now, s.Controller.Connected
	return a.answered, err
}

// logHandler counts the errors in the daemon's log.
type logHandler struct{ a *agent }

func (h logHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (h logHandler) WithAttrs([]slog.Attr) slog.Handler               { return h }
func (h logHandler) WithGroup(string) slog.Handler                    { return h }

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(attr slog.Attr) bool {
		if attr.Key == "error" {
			h.a.countError(fmt.Sprintf("%s: %s", r.Message, attr.Value))
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
