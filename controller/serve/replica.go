package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"github.com/nodehitch/nodehitch/controller/backup"
	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/core"
	"github.com/nodehitch/nodehitch/controller/httpapi"
	"github.com/nodehitch/nodehitch/controller/notify"
	peer "github.com/nodehitch/nodehitch/controller/replica"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/etcd"
	"github.com/nodehitch/nodehitch/controller/store/sharing"
	"github.com/nodehitch/nodehitch/controller/telemetry"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// replica is a controller among those that share their store in etcd. It waits to become the
// leader, and is one until its term is over; then the process ends, and the next one waits.
type replica struct {
	states  states
	client  *etcd.Client
	history *store.History
	members *membership
	c       config.Config
	peers   *peers // nil if this controller serves while it is the leader only
	metrics *telemetry.Metrics
	log     *slog.Logger
	close   func() error
}

// serveReplica waits to become the leader, and serves as the leader until its term is over.
func serveReplica(ctx context.Context, c config.Config, l *listeners, metrics *telemetry.Metrics, log *slog.Logger) (err error) {
	// What goes on until nothing is served any more; if it fails, nothing is.
	lasting, end := context.WithCancel(context.WithoutCancel(ctx))
	process, lasting := errgroup.WithContext(lasting)
	ctx, stop := context.WithCancel(ctx)
	defer context.AfterFunc(lasting, stop)()
	var r *replica
	defer func() {
		end()
		err = errors.Join(err, process.Wait())
		if r != nil {
			_ = r.close() // the process ends
		}
	}()
	if r, err = openReplica(lasting, process, c, metrics, log); err != nil {
		return err
	}
	term, err := r.becomeLeader(ctx, func(m *etcd.Member) { process.Go(func() error { return m.Run(lasting) }) }, l)
	switch {
	case term == nil && ctx.Err() != nil:
		log.Info("stopped")
		return nil
	case err != nil:
		return err
	}
	defer func() { _ = term.Close() }() // the store has, if it was opened
	r.states.change(func(s *state) { s.term = term })
	if err := r.states.enter(opening, ""); err != nil {
		return err
	}
	notifySystemd("STATUS=Leader; opening the store", log)
	as := r.leadershipIn(term, func() (err error) {
		// A client that connects to an address which a follower has kept open waits meanwhile. A
		// closed address refuses clients until there is something to serve.
		if l.HTTPS == nil {
			if l.HTTPS, err = listenHTTPS(ctx, c); err != nil {
				return err
			}
		}
		notifySystemd("STATUS=Leader", log)
		return r.states.enter(leading, "")
	})
	return serveAs(ctx, as, c, l, metrics, log)
}

// leadership is what a replica has in its term as the leader.
type leadership struct {
	term    *etcd.Term
	shared  *store.Shared
	members *membership
	peers   *peers // nil as in replica
	roster  *peer.Roster
	// opened is called when the store is open and nothing is served yet.
	opened func() error
}

func (r *replica) leadershipIn(term *etcd.Term, opened func() error) *leadership {
	l := &leadership{term: term, opened: opened, shared: &store.Shared{Term: term, History: r.history, Name: sharing.Name(r.c.Store.Etcd)}, members: r.members, peers: r.peers,
		roster: &peer.Roster{Live: func() ([]wire.Replica, error) { return r.members.known(term, r.c.Replica.ID) }, Log: r.log}}
	if r.peers != nil {
		l.roster.Client = r.peers.client
	}
	return l
}

// lead answers requests that other replicas hand on, and asks them how far they follow. awaitCommit is
// AwaitCommit of the store.
func (l *leadership) lead(api http.Handler, awaitCommit func()) error {
	if err := l.opened(); err != nil {
		return err
	}
	leading, end := context.WithCancel(context.Background())
	go l.roster.Run(leading)
	if l.peers != nil {
		l.peers.server.Lead(api, awaitCommit)
	}
	go func() {
		<-l.term.Over()
		end()
		if l.peers != nil { // a package file that is being fetched must not hold up the end
			l.peers.client.Close()
		}
	}()
	return nil
}

// options are what a leader is opened with.
func (l *leadership) options(o *core.Options) {
	o.Shared, o.Replicas = l.shared, l.roster
	l.roster.Changed = func() { o.Hub.Changed(notify.Replicas) }
	if l.peers != nil {
		o.Blobs = l.peers.blobs
		o.MayMigrate = func() error { return etcd.CheckSchema(l.members.joined().Live(), store.Schema()) }
	}
}

func openReplica(ctx context.Context, process *errgroup.Group, c config.Config, metrics *telemetry.Metrics, log *slog.Logger) (_ *replica, err error) {
	place, err := sharing.Open(c, log)
	if err != nil {
		return nil, err
	}
	r := &replica{client: place.Client, history: place.History, close: place.Close, c: c, members: &membership{}, metrics: metrics, log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, place.Close())
		}
	}()
	if err := refuseOwnStore(c); err != nil {
		return nil, err
	}
	if c.SealKeyFile != "" && !core.Missing(c.SealKeyFile) { // it would show when this controller becomes the leader
		if _, err := core.SealKey(c).ID(); err != nil {
			return nil, err
		}
	}
	metrics.CollectReplica(r.measured)
	if c.Replica.Serves() {
		if r.peers, err = openPeers(ctx, process, c, r.members.others, log); err != nil {
			return nil, err
		}
		r.peers.server.Tell(func() peer.Status { return r.states.get().status() })
	}
	return r, nil
}

// refuseOwnStore refuses a store of this controller alone, unless its state was moved.
func refuseOwnStore(c config.Config) error {
	path := filepath.Join(c.DataDirectory, backup.StoreFile)
	if core.Missing(path) {
		return nil
	}
	s, err := store.Open(store.Options{Path: path, Key: core.SealKey(c), BeforeMigration: func(*store.Store) error { return errors.New("its schema is an older one") }})
	if moved := new(store.MovedError); errors.As(err, &moved) {
		return nil
	}
	if err == nil {
		err = s.Close()
	}
	return errors.Join(fmt.Errorf("there is a store of this controller alone, %s, and store.etcd is set: run `nodehitch-controller migrate --to etcd`, or move the file away if its state is not needed; nothing has been changed", path), err)
}

// becomeLeader waits for it. Meanwhile requests are handed to the leader. If this controller
// serves while it is the leader only, then its unix socket answers that it is not.
func (r *replica) becomeLeader(ctx context.Context, joined func(*etcd.Member), l *listeners) (*etcd.Term, error) {
	if err := l.closeHTTPS(r.peers != nil); err != nil {
		return nil, err
	}
	group, waiting := errgroup.WithContext(ctx)
	over, end := context.WithCancel(waiting)
	defer end()
	if l.API != nil {
		server := httpapi.NewServer(r, r.log)
		server.RegisterOnShutdown(r.drain)
		serveBorrowed(group, over, server, borrow(l.API))
	}
	if l.Metrics != nil {
		serveBorrowed(group, over, newMetricsServer(r.metrics, r.log), newMetricsLimiter(r.log).Listener(borrow(l.Metrics), nil))
	}
	group.Go(func() error { return watchdog(over, func(context.Context) error { return nil }, r.log) })
	var term *etcd.Term
	group.Go(func() (err error) {
		defer end()
		member, err := r.members.join(over, r.client, r.c, r.log)
		if err != nil {
			return err
		}
		joined(member)
		if r.peers != nil {
			group.Go(func() error { return r.follower(over, l) })
		}
		term, err = r.client.Campaign(over, r.see)
		return err
	})
	notifySystemd(daemon.SdNotifyReady, r.log)
	err := group.Wait()
	for _, each := range []net.Listener{l.HTTPS, l.API, l.Metrics} {
		if each != nil {
			err = errors.Join(err, until(each, time.Time{}))
		}
	}
	if err != nil && term != nil {
		err = errors.Join(err, term.Close())
	}
	return term, err
}

// see notes what etcd says of the store and of its leader.
func (r *replica) see(p etcd.Position) {
	r.history.Seen(p.Cluster, p.Revision, p.Head)
	if !r.states.elect(p) {
		return
	}
	what, leader := "Standby", "nobody"
	if r.peers != nil {
		what = "Follower"
	}
	if p.Leader != "" {
		leader = strconv.Quote(p.Leader)
	}
	notifySystemd("STATUS="+what+"; the leader is "+leader, r.log)
}

// measured is what the metrics show of this replica.
func (r *replica) measured() telemetry.Replica {
	m := r.states.get().measured()
	if member := r.members.joined(); member != nil {
		if live, err := member.Known(); err == nil {
			alive := len(live)
			m.Live = &alive
		}
	}
	return m
}

// ServeHTTP answers on the unix socket: as a follower once it is one.
func (r *replica) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	now := r.states.get()
	if now.forwarder != nil {
		now.forwarder.ServeHTTP(w, request)
		return
	}
	problem := wire.NewProblem(wire.ProblemNoLeader, "this controller is a standby and no controller is the leader now: try again in a few seconds")
	if now.elected != "" {
		problem = wire.NewProblem(wire.ProblemUnavailable, fmt.Sprintf("this controller is a standby and the leader is %q: ask that one", now.elected))
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Retry-After", "5")
	w.WriteHeader(problem.Status)
	_ = json.NewEncoder(w).Encode(problem) // the client may have gone
}

// serveBorrowed serves until over ends.
func serveBorrowed(group *errgroup.Group, over context.Context, server *http.Server, l net.Listener) {
	group.Go(func() error { return listenedOn(server.Serve(l)) })
	group.Go(func() error {
		<-over.Done()
		limit, cancel := context.WithTimeout(context.WithoutCancel(over), failedLimit)
		defer cancel()
		return httpapi.Shutdown(limit, server)
	})
}

// drain ends requests that are held.
func (r *replica) drain() {
	if f := r.states.get().forwarder; f != nil {
		f.Drain()
	}
}

// borrowed is a listener whose Close leaves it open for the next, which begins with borrow.
type borrowed struct {
	net.Listener
	closed atomic.Bool
}

func borrow(l net.Listener) *borrowed {
	_ = until(l, time.Time{}) // it fails for one that is closed, and so does Accept
	return &borrowed{Listener: l}
}

func (b *borrowed) Accept() (net.Conn, error) {
	if b.closed.Load() {
		return nil, net.ErrClosed
	}
	conn, err := b.Listener.Accept()
	if b.closed.Load() {
		if err == nil {
			_ = conn.Close() // nothing was read
		}
		return nil, net.ErrClosed
	}
	return conn, err
}

// Close ends a pending Accept.
func (b *borrowed) Close() error {
	b.closed.Store(true)
	return until(b.Listener, time.Unix(1, 0))
}

func until(l net.Listener, deadline time.Time) error {
	return l.(interface{ SetDeadline(t time.Time) error }).SetDeadline(deadline)
}
