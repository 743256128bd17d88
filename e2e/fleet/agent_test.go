package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/nodehitch/nodehitch/agent/connection/identity"
	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/daemon"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/shared/api"
)

// agent is the product's daemon on a machine that is a folder. It hears the
// daemon's log to know whether the controller answers, and is its only step.
type agent struct {
	counter   *counter
	daemon    *daemon.Daemon
	connected bool
	digest    string
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
	a := &agent{counter: c}
	a.daemon = daemon.New(daemon.Options{
		Config: &cfg, State: directory, Machine: identity.At(root, "http://127.0.0.1:9/"),
		Engine:     func(string) *converge.Engine { return converge.New(a) },
		StatusFile: filepath.Join(root, "status.json"), LockFile: filepath.Join(root, "lock"),
		Notify: func(string) {}, Log: slog.New(ear{a}),
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			return c.dialed(conn, err), err
		},
	})
	return a, nil
}

func (a *agent) run(ctx context.Context) {
	if err := a.daemon.Run(ctx); err != nil {
		a.complains("ended: " + err.Error())
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

// ear hears what the daemon logs.
type ear struct{ a *agent }

func (e ear) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (e ear) WithAttrs([]slog.Attr) slog.Handler               { return e }
func (e ear) WithGroup(string) slog.Handler                    { return e }

func (e ear) Handle(_ context.Context, r slog.Record) error {
	switch r.Message {
	case "the controller answers":
		e.a.hears(true)
	case "no good answer from the controller":
		e.a.hears(false)
	}
	if r.Level >= slog.LevelWarn {
		r.Attrs(func(attr slog.Attr) bool {
			if attr.Key == "error" {
				e.a.complains(fmt.Sprintf("%s: %s", r.Message, attr.Value))
			}
			return true
		})
	}
	return nil
}

// hears notes whether the controller answers.
func (a *agent) hears(answers bool) {
	a.counter.mu.Lock()
	defer a.counter.mu.Unlock()
	switch {
	case answers && !a.connected:
		a.counter.connected++
	case !answers && a.connected:
		a.counter.connected--
	}
	a.connected = answers
}

func (a *agent) complains(of string) {
	a.counter.mu.Lock()
	defer a.counter.mu.Unlock()
	if a.counter.since.Errors == nil {
		a.counter.since.Errors = map[string]int{}
	}
	a.counter.since.Errors[of]++
}
