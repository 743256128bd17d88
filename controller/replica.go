package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"github.com/nodehitch/nodehitch/controller/backup"
	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/etcd"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/telemetry"
	"github.com/nodehitch/nodehitch/shared/api"
)

// replica is a controller among those that share their store in etcd. It waits to become the
// writer, and is one until its term is over; then the process ends, and the next one waits.
type replica struct {
	client  *etcd.Client
	history *store.History
	// writer is who the writer was when etcd was asked last, "" for nobody.
	writer  atomic.Pointer[string]
	etcd    config.Etcd
	metrics *telemetry.Metrics
	log     *slog.Logger
	close   func() error
}

// historyFile is in the data directory what this controller has seen of the shared store.
const historyFile = "history.json"

func openReplica(c config.Config, metrics *telemetry.Metrics, log *slog.Logger) (_ *replica, err error) {
	release, err := holdDirectory(c.DataDirectory)
	if err != nil {
		return nil, err
	}
	r := &replica{etcd: c.Store.Etcd, metrics: metrics, log: log}
	r.close = func() error { return errors.Join(r.client.Close(), release()) }
	defer func() {
		if err != nil {
			err = errors.Join(err, release())
		}
	}()
	if err := refuseOwnStore(c); err != nil {
		return nil, err
	}
	if r.history, err = store.OpenHistory(filepath.Join(c.DataDirectory, historyFile)); err != nil {
		return nil, err
	}
	if r.client, err = connectEtcd(c, log); err != nil {
		return nil, err
	}
	r.writer.Store(new(string))
	metrics.Writer(false)
	return r, nil
}

// refuseOwnStore refuses a store of this controller alone, unless its state was moved.
func refuseOwnStore(c config.Config) error {
	path := filepath.Join(c.DataDirectory, backup.StoreFile)
	if missing, err := notThere(path); missing || err != nil {
		return err
	}
	s, err := store.Open(store.Options{Path: path, Key: keyOf(c), BeforeMigration: func(*store.Store) error { return errors.New("its schema is an older one") }})
	if moved := new(store.MovedError); errors.As(err, &moved) {
		return nil
	}
	if err == nil {
		err = s.Close()
	}
	return errors.Join(fmt.Errorf("there is a store of this controller alone, %s, and store.etcd is set: run `nodehitch-controller migrate --to etcd`, or move the file away if its state is not needed; nothing has been changed", path), err)
}

func notThere(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

// nameOf names the store for errors, and for the mark of one whose state was moved to it.
func nameOf(e config.Etcd) string {
	return "etcd at " + strings.Join(e.Endpoints, ", ") + ", " + e.Prefix
}

// connectEtcd is a client of the etcd of the configuration.
func connectEtcd(c config.Config, log *slog.Logger) (*etcd.Client, error) {
	e := c.Store.Etcd
	files := etcd.Files{CA: e.CA, Cert: e.Cert, Key: e.Key, Password: e.PasswordFile}
	password, err := files.ReadPassword()
	if err != nil {
		return nil, err
	}
	certificates, err := files.TLS()
	if err != nil {
		return nil, err
	}
	return etcd.New(etcd.Options{Endpoints: e.Endpoints, Prefix: e.Prefix, TLS: certificates, Username: e.Username, Password: password,
		Name: c.Replica.ID, Log: log}), nil
}

// holdDirectory keeps a second process out of the data directory, which bbolt does for a
// store of one controller alone.
func holdDirectory(path string) (release func() error, err error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	directory, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the data directory: %w", err)
	}
	if err := syscall.Flock(int(directory.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("locking the data directory %s: %w: another controller is running with it: stop it, or set another dataDirectory", path, err), directory.Close())
	}
	return directory.Close, nil
}

// becomeWriter waits for it. Meanwhile the unix socket answers that this controller is not the
// writer, and metrics are served.
func (r *replica) becomeWriter(ctx context.Context, l *listeners) (*etcd.Term, error) {
	if l.inheritedHTTPS {
		return nil, errors.New("systemd hands over a socket called https, on which clients of a standby would wait in vain: remove it from the unit; the controller opens the address of listen (--listen) itself while it is the writer")
	}
	// That it could be opened shows that it can be when this controller becomes the writer. An
	// agent whose connection is refused goes on to the next controller.
	if err := l.HTTPS.Close(); err != nil {
		return nil, err
	}
	l.HTTPS = nil
	group, waiting := errgroup.WithContext(ctx)
	over, end := context.WithCancel(waiting)
	defer end()
	serveBorrowed(group, over, l.API, http.HandlerFunc(r.answer))
	serveBorrowed(group, over, l.Metrics, metricsHandler(r.metrics))
	group.Go(func() error { return watchdog(over, func(context.Context) error { return nil }, r.log) })
	var term *etcd.Term
	group.Go(func() (err error) {
		defer end()
		term, err = r.client.Campaign(over, r.see)
		return err
	})
	notifySystemd(daemon.SdNotifyReady, r.log)
	err := group.Wait()
	for _, each := range []net.Listener{l.API, l.Metrics} {
		if each != nil {
			err = errors.Join(err, borrowed{each}.until(time.Time{}))
		}
	}
	if err != nil && term != nil {
		err = errors.Join(err, term.Close())
	}
	return term, err
}

// shared is the store in this term.
func (r *replica) shared(term *etcd.Term) *store.Shared {
	r.metrics.Writer(true)
	return &store.Shared{Term: term, History: r.history, Name: nameOf(r.etcd)}
}

func (r *replica) see(p etcd.Position) {
	r.history.Seen(p.Cluster, p.Revision, p.Head)
	if *r.writer.Load() != p.Writer {
		r.writer.Store(&p.Writer)
		notifySystemd("STATUS=Standby; the writer is "+cmp.Or(p.Writer, "nobody"), r.log)
	}
}

func (r *replica) answer(w http.ResponseWriter, _ *http.Request) {
	detail := "this controller is a standby and no controller is the writer now: try again in a few seconds"
	if writer := *r.writer.Load(); writer != "" {
		detail = fmt.Sprintf("this controller is a standby and the writer is %q: ask that one", writer)
	}
	problem := api.NewProblem(api.ProblemUnavailable, detail)
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Retry-After", "5")
	w.WriteHeader(problem.Status)
	_ = json.NewEncoder(w).Encode(problem) // the client may have gone
}

// serveBorrowed serves the listener until over ends, and leaves it open.
func serveBorrowed(group *errgroup.Group, over context.Context, l net.Listener, handler http.Handler) {
	if l == nil {
		return
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	group.Go(func() error { return listenedOn(server.Serve(borrowed{l})) })
	group.Go(func() error {
		<-over.Done()
		limit, cancel := context.WithTimeout(context.WithoutCancel(over), time.Second)
		defer cancel()
		if err := server.Shutdown(limit); err != nil {
			return server.Close()
		}
		return nil
	})
}

// borrowed is a listener whose Close ends a pending Accept, and leaves it open for the next.
type borrowed struct{ net.Listener }

func (b borrowed) Close() error { return b.until(time.Unix(1, 0)) }

func (b borrowed) until(deadline time.Time) error {
	return b.Listener.(interface{ SetDeadline(t time.Time) error }).SetDeadline(deadline)
}
