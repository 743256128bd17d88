package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/telemetry"
	"github.com/nodehitch/nodehitch/controller/traffic/connlimit"
)

// listeners are the sockets that the controller serves. API and Metrics are nil
// if there are none.
type listeners struct {
	HTTPS, API, Metrics net.Listener
	// inheritedHTTPS says that systemd has opened HTTPS.
	inheritedHTTPS bool
}

// The FileDescriptorName= of sockets that systemd may hand over.
const (
	socketHTTPS   = "https"
	socketAPI     = "api"
	socketMetrics = "metrics"
)

// listen takes the sockets that systemd hands over and opens the others.
func listen(ctx context.Context, c config.Config, log *slog.Logger) (l listeners, err error) {
	inherited, err := activation.ListenersWithNames()
	if err != nil {
		return l, fmt.Errorf("taking sockets from systemd: %w", err)
	}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.HTTPS, err = take(inherited, socketHTTPS); l.HTTPS == nil && err == nil {
		l.HTTPS, err = listenHTTPS(ctx, c)
	} else {
		l.inheritedHTTPS = err == nil
	}
	if err != nil {
		return l, err
	}
	if l.API, err = take(inherited, socketAPI); l.API == nil && err == nil && c.Socket != "" {
		l.API, err = listenUnix(ctx, c.Socket)
	}
	if err != nil {
		return l, err
	}
	if l.Metrics, err = take(inherited, socketMetrics); l.Metrics == nil && err == nil && c.MetricsListen != "" {
		l.Metrics, err = listenTCP(ctx, c.MetricsListen, "metricsListen (--metrics-listen; empty serves no metrics)")
	}
	for name := range inherited {
		log.Warn("a socket from systemd is not used: expected FileDescriptorName= https, api or metrics", "name", name)
	}
	return l, err
}

// closeHTTPS closes HTTPS until there is something to serve. That it could be opened shows
// that it can be again. An agent whose connection is refused goes on to the next controller.
func (l *listeners) closeHTTPS(follows bool) error {
	switch {
	case l.inheritedHTTPS && follows:
		return nil
	case l.inheritedHTTPS:
		return errors.New("systemd hands over a socket called https, on which clients would wait in vain until this controller is the leader: set replica.url and replica.listen, or remove the socket from the unit")
	}
	err := l.HTTPS.Close()
	l.HTTPS = nil
	return err
}

func (l listeners) close() {
	for _, each := range []net.Listener{l.HTTPS, l.API, l.Metrics} {
		if each != nil {
			_ = each.Close() // nothing was served on it, or all is over
		}
	}
}

// newLimiter limits the connections of the HTTPS listener. Only the file descriptors
// that the process may have bound them: LimitNOFILE= of the unit.
func newLimiter(log *slog.Logger, m *telemetry.Metrics) *connlimit.Limiter {
	return &connlimit.Limiter{Limits: connlimit.LimitsFor(descriptors()), Log: log,
		OnHandshake: m.TLSHandshake, OnRejected: m.ConnectionRejected, OnClosed: m.ConnectionClosed}
}

// descriptors is how many file descriptors the process may have. The Go runtime has
// raised the soft limit to the hard one.
func descriptors() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return int(min(limit.Cur, 1<<20))
}

// metricsConnections is how many a few scrapers need.
const metricsConnections = 64

// newMetricsLimiter keeps the clients of the metrics from taking the descriptors of all
// others.
func newMetricsLimiter(log *slog.Logger) *connlimit.Limiter {
	limits := connlimit.LimitsFor(1024)
	limits.Connections, limits.Unauthenticated, limits.PerSource = metricsConnections+1, metricsConnections, metricsConnections
	return &connlimit.Limiter{Limits: limits, Log: log}
}

// take removes the socket of this name from the inherited ones.
func take(inherited map[string][]net.Listener, name string) (net.Listener, error) {
	sockets := slices.DeleteFunc(inherited[name], func(l net.Listener) bool { return l == nil })
	delete(inherited, name)
	switch len(sockets) {
	case 0:
		return nil, nil
	case 1:
		return sockets[0], nil
	}
	return nil, fmt.Errorf("systemd hands over %d sockets called %s; expected one", len(sockets), name)
}

func listenHTTPS(ctx context.Context, c config.Config) (net.Listener, error) {
	return listenTCP(ctx, c.Listen, "listen (--listen)")
}

func listenTCP(ctx context.Context, address, setting string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, fmt.Errorf("opening %s: %w; stop the program that listens there (`ss -ltnp` names it), or set another address", setting, err)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return nil, fmt.Errorf("opening %s: %w; set an address that this machine has (`ip address` lists them)", setting, err)
	case err != nil:
		return nil, fmt.Errorf("opening %s: %w", setting, err)
	}
	return l, nil
}

// listenUnix opens the socket for root of this machine, in the place of one that
// a controller left behind that was killed.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("making the directory of the unix socket: %w", err)
	}
	if conn, err := new(net.Dialer).DialContext(ctx, "unix", path); err == nil {
		conn.Close()
		return nil, fmt.Errorf("the unix socket %s answers: another controller is running; to run one beside it, set another socket (--socket)", path)
	}
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s is not a socket: move it away, or set another path as socket", path)
	case err == nil:
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing an old unix socket: %w", err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("opening the unix socket: %w", err)
	}
	// A client that connects before this is asked for its user id all the same.
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("restricting the unix socket: %w", err)
	}
	return l, nil
}
