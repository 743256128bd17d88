// Package serve runs a controller: its listeners, its services, and what it is among the
// replicas that share a store.
package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"github.com/nodehitch/nodehitch/controller/agentupgrade"
	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/httpapi"
	"github.com/nodehitch/nodehitch/controller/telemetry"
	"github.com/nodehitch/nodehitch/controller/trust/pki"
	"github.com/nodehitch/nodehitch/controller/ui/certificate"
	"github.com/nodehitch/nodehitch/shared/nocore"
	"github.com/nodehitch/nodehitch/shared/version"
)

// shutdownLimit is how long requests in progress may take after SIGTERM; held ones
// are answered at once. It is below systemd's TimeoutStopSec.
const shutdownLimit = 30 * time.Second

// failedLimit is that once the store answers nothing any more, so that no request can succeed.
const failedLimit = 2 * time.Second

// garbagePercent is how much garbage there may be for what is alive. Most of that belongs
// to connections, which live long: as much garbage again, which is Go's default, would be
// gigabytes for a large fleet, and little is gained by it.
const garbagePercent = 40

// Run runs the controller until ctx ends or a listener fails.
func Run(ctx context.Context, c config.Loaded, log *slog.Logger) error {
	for _, w := range c.Warnings {
		log.Warn(w)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	if err := nocore.Disable(); err != nil {
		log.Warn("a crash may write the memory of this process, with its secrets, to disk", "error", err)
	}
	sockets, err := listen(ctx, c.Config, log)
	if err != nil {
		return err
	}
	defer func() { sockets.close() }()
	metrics := telemetry.New(version.Version)
	if c.Store.Etcd.Configured() {
		return serveReplica(ctx, c.Config, &sockets, metrics, log)
	}
	return serveAs(ctx, nil, c.Config, &sockets, metrics, log)
}

// serveAs serves as the leader of a store that controllers share, or of one of its own (nil).
func serveAs(ctx context.Context, as *leadership, c config.Config, l *listeners, metrics *telemetry.Metrics, log *slog.Logger) error {
	s, err := openWatched(ctx, c, as, metrics, log)
	if err != nil {
		return err
	}
	if as != nil {
		err = as.lead(s.handler, s.Store.AwaitCommit)
	}
	if err == nil {
		s.logStart(c, *l, log)
		err = s.run(ctx, *l, log)
	}
	if s.nova != nil {
		s.nova.Close()
	}
	err = errors.Join(err, s.Store.Close())
	log.Info("stopped")
	return err
}

// openLimit is how long a replica may take to open: a backup before a change of schema has all
// package files.
const openLimit = 15 * time.Minute

// openWatched opens. systemd, which has been told that a replica is ready, hears of it meanwhile.
func openWatched(ctx context.Context, c config.Config, as *leadership, metrics *telemetry.Metrics, log *slog.Logger) (_ *services, err error) {
	if as != nil {
		opening, opened := context.WithTimeout(ctx, openLimit)
		var watched errgroup.Group
		watched.Go(func() error { return watchdog(opening, func(context.Context) error { return nil }, log) })
		defer func() { opened(); err = errors.Join(err, watched.Wait()) }()
	}
	return open(c, as, metrics, time.Now, log)
}

// newMetricsServer serves the metrics.
func newMetricsServer(m *telemetry.Metrics, log *slog.Logger) *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.Handler())
	return &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
}

// run serves, and keeps the clocks of the services going meanwhile.
func (s *services) run(ctx context.Context, l listeners, log *slog.Logger) error {
	group, running := errgroup.WithContext(ctx)
	working, rest := context.WithCancel(context.WithoutCancel(ctx))
	defer rest()
	server := s.handler.HTTPServer()
	metrics := newMetricsServer(s.metrics, log)

	group.Go(func() error {
		return listenedOn(server.Serve(s.limiter.Listener(l.HTTPS, tlsConfig(s.Authority, s.browsers))))
	})
	if l.API != nil {
		group.Go(func() error { return listenedOn(server.Serve(l.API)) })
	}
	if l.Metrics != nil {
		group.Go(func() error { return listenedOn(metrics.Serve(newMetricsLimiter(log).Listener(l.Metrics, nil))) })
	}
	group.Go(func() error { return s.Lifecycle.Run(working) })
	group.Go(func() error { s.Agents.Run(working); return nil })
	group.Go(func() error { s.Authority.Run(working); return nil })
	group.Go(func() error { s.Files.Run(working); return nil })
	group.Go(func() error { s.Events.Run(working); return nil })
	group.Go(func() error { s.Tokens.Run(working); return nil })
	group.Go(func() error {
		select {
		case <-s.Store.Over():
			return s.Store.Why()
		case <-running.Done():
			return nil
		}
	})
	group.Go(func() error { return watchdog(working, s.Ready, log) })
	group.Go(func() error {
		<-running.Done()
		most := shutdownLimit
		select {
		case <-s.Store.Over():
			if s.Ready(working) != nil {
				most = failedLimit
			}
		default:
		}
		log.Info("stopping: held polls are answered, other requests may finish", "limit", most)
		notifySystemd(daemon.SdNotifyStopping, log)
		limit, cancel := context.WithTimeout(working, most)
		defer cancel()
		err := errors.Join(httpapi.Shutdown(limit, server), metrics.Close())
		rest()
		return err
	})
	notifySystemd(daemon.SdNotifyReady, log)
	return group.Wait()
}

func tlsConfig(a *pki.Authority, browsers *certificate.Certificate) *tls.Config {
	c := a.TLSConfig()
	c.NextProtos = []string{"http/1.1"}
	if browsers != nil {
		own := c.GetCertificate
		c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if known := browsers.For(hello); known != nil {
				return known, nil
			}
			return own(hello)
		}
	}
	return c
}

// listenedOn is nil for the end that Shutdown brings.
func listenedOn(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving: %w", err)
}

// logStart logs what an operator wants to know first.
func (s *services) logStart(c config.Config, l listeners, log *slog.Logger) {
	log.Info("nodehitch-controller "+version.Version, "urls", c.AdvertiseURLs, "listen", l.HTTPS.Addr().String(), "socket", addressOf(l.API),
		"metrics", addressOf(l.Metrics), "data", c.DataDirectory, "pin", s.Authority.Pin(), "epoch", s.Store.Epoch())
	s.warnOfRestore(log)
	sayAttestation(c, log)
	sayAgents(c.AgentDirectory, log)
	if tokens, err := s.Tokens.List(context.Background()); err == nil && len(tokens) == 0 && l.API != nil {
		log.Info("there is no API token yet; as root on this machine: hitchctl --server unix://" + addressOf(l.API) + " create token admin")
	}
}

// warnOfRestore reminds of what a restore has left to an operator.
func (s *services) warnOfRestore(log *slog.Logger) {
	waiting := 0
	instances, err := s.Lifecycle.Instances.ListInstances(context.Background())
	for _, i := range instances {
		if i.Unconfirmed {
			waiting++
		}
	}
	if err == nil && waiting > 0 {
		log.Warn("the state was "+s.Store.Origin().String()+"; nodes of these instances are refused until `hitchctl confirm instance`", "instances", waiting)
	}
}

var errNoAgent = errors.New("the directory has no file " + agentupgrade.File + "<GOARCH>")

// sayAgents warns if no VM can download an agent.
func sayAgents(directory string, log *slog.Logger) {
	files, err := os.ReadDir(directory)
	if slices.ContainsFunc(files, func(f os.DirEntry) bool { return strings.HasPrefix(f.Name(), agentupgrade.File) }) {
		return
	}
	log.Warn("no VM can download an agent: put nodehitch-agent-amd64 or nodehitch-agent-arm64 into agentDirectory (--agent-directory)",
		"directory", directory, "error", cmp.Or(err, errNoAgent))
}

func addressOf(l net.Listener) string {
	if l == nil {
		return "none"
	}
	return l.Addr().String()
}
