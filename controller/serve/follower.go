package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/core"
	"github.com/nodehitch/nodehitch/controller/httpapi"
	"github.com/nodehitch/nodehitch/controller/notify"
	peer "github.com/nodehitch/nodehitch/controller/replica"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/files"
	"github.com/nodehitch/nodehitch/controller/store/sharing"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/controller/trust/pki"
)

// peers is what this replica and the others say to each other.
type peers struct {
	client *peer.Client
	blobs  *files.Blobs
	server *peer.Server
}

// openPeers listens for the other replicas. They run in the group.
func openPeers(ctx context.Context, group *errgroup.Group, c config.Config, others func() []string, log *slog.Logger) (*peers, error) {
	secret, err := core.SealKey(c).Derive(peer.KeyPurpose)
	if err != nil {
		return nil, fmt.Errorf("%w; replicas know each other by the seal key, so each needs the same one before its first start", err)
	}
	trust, err := peer.NewTrust(secret)
	if err != nil {
		return nil, err
	}
	p := &peers{client: peer.NewClient(trust)}
	if p.blobs, err = files.OpenBlobs(c.DataDirectory, c.MaxFileBytes, time.Now); err != nil {
		return nil, err
	}
	p.blobs.Peers = &peer.Files{Client: p.client, Others: others, Log: log}
	l, err := listenTCP(ctx, c.Replica.Listen, "replica.listen (--replica-listen)")
	if err != nil {
		return nil, err
	}
	p.server = peer.NewServer(trust, p.blobs, log)
	group.Go(func() error { return p.server.Serve(l) })
	group.Go(func() error {
		<-ctx.Done()
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), failedLimit)
		defer cancel()
		err := p.server.Shutdown(limit)
		p.client.Close()
		return err
	})
	return p, nil
}

// follower serves the API until ctx ends, by handing each request to the leader. It needs the
// state for its own certificate, and to wake the polls that it holds.
func (r *replica) follower(ctx context.Context, l *listeners) (err error) {
	d := &followerAuthority{c: r.c, log: r.log}
	hub := new(notify.Hub)
	changed := func(t *store.Tx) {
		d.changed(t) // first: a node's next certificate may be of another intermediate
		keys, all, err := tx.Woken(t)
		if err != nil {
			r.log.Error("all held polls are asked for again", "because", err)
		}
		hub.Changed(keys...)
		if all {
			hub.All()
		}
	}
	feed := r.client.Follow(hub.All)
	r.states.change(func(s *state) { s.feed = feed })
	if err := r.states.enter(reading, "it has not read the state yet"); err != nil {
		return err
	}
	followed, err := store.Follow(ctx, store.Options{Key: core.SealKey(r.c), Now: time.Now}, store.Followed{Feed: feed, History: r.history,
		Name: sharing.Name(r.c.Store.Etcd), Changed: changed, Waiting: func(because string) {
			r.states.change(func(s *state) { s.because = because })
			r.log.Info("not serving yet", "because", because)
		}})
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer func() { err = errors.Join(err, followed.Close()) }()
	if err := r.states.enter(uncertified, "it has no certificate of its own yet"); err != nil {
		return err
	}
	authority, err := d.follow(ctx, followed)
	if authority == nil {
		return err
	}
	browsers, err := openBrowsers(r.c, time.Now, r.log)
	if err != nil {
		return err
	}
	follows := func() bool { return followed.View(func(*store.Tx) error { return nil }) == nil }
	copies := &files.Service{Store: followed, Blobs: r.peers.blobs, Now: time.Now, Log: r.log}

	newForwarder := func() *peer.Forwarder {
		return peer.NewForwarder(peer.ForwarderOptions{ID: r.c.Replica.ID, Leader: r.members.leader, Client: r.peers.client, Log: r.log,
			Polls: &peer.Polls{Hub: hub, Follows: follows, Held: r.metrics.PollHeld}})
	}
	unix := newForwarder() // its socket stays open
	r.states.change(func(s *state) { s.forwarder = unix })
	open := func(ctx context.Context) error {
		if err := r.states.enter(serving, ""); err != nil {
			return err
		}
		forwarder := newForwarder()
		server := httpapi.NewServer(forwarder, r.log)
		server.RegisterOnShutdown(forwarder.Drain)
		limited := newLimiter(r.log, r.metrics).Listener(borrow(l.HTTPS), tlsConfig(authority, browsers))
		r.log.Info("serving: requests are handed to the leader", "urls", r.c.AdvertiseURLs, "listen", addressOf(l.HTTPS), "socket", addressOf(l.API),
			"metrics", addressOf(l.Metrics), "replicas", r.c.Replica.URL)
		group, serving := errgroup.WithContext(ctx)
		serveBorrowed(group, serving, server, limited)
		return group.Wait()
	}

	group, serving := errgroup.WithContext(ctx)
	group.Go(func() error {
		return r.reached(serving, l, &peer.Reach{Leader: r.members.leader, Vacant: func() bool { return follows() && !r.members.led() }, Client: r.peers.client, SilenceLimit: silenceLimit}, open)
	})
	group.Go(func() error { authority.Run(serving); return nil })
	group.Go(func() error { copies.RunCopies(serving); return nil })
	group.Go(func() error {
		select {
		case <-followed.Over():
			return followed.Why()
		case <-serving.Done():
			return nil
		}
	})
	return group.Wait()
}

// silenceLimit is longer than it takes until another controller is the leader: the connections of all
// agents are kept meanwhile.
const silenceLimit = 15 * time.Second

// reached serves while the leader is reached, and closes the HTTPS address while it is not. The
// unix socket stays: root has no other controller to ask.
func (r *replica) reached(ctx context.Context, l *listeners, reach *peer.Reach, serve func(context.Context) error) error {
	for ctx.Err() == nil {
		if l.HTTPS == nil {
			var err error
			if l.HTTPS, err = listenHTTPS(ctx, r.c); err != nil {
				return err
			}
		}
		group, serving := errgroup.WithContext(ctx)
		reaching, lost := context.WithCancel(serving)
		group.Go(func() error { return serve(reaching) })
		group.Go(func() error {
			defer lost()
			if l.inheritedHTTPS { // it cannot be closed: who connects would wait in vain
				<-serving.Done()
				return nil
			}
			reach.Lost(serving)
			return nil
		})
		if err := group.Wait(); err != nil || ctx.Err() != nil {
			return err
		}
		because := "the leader does not answer this controller, so its clients are to ask another one"
		r.log.Warn("not serving", "because", because, "listen", addressOf(l.HTTPS))
		if err := r.states.enter(cutOff, because); err != nil {
			return err
		}
		if err := l.closeHTTPS(true); err != nil {
			return err
		}
		reach.Found(ctx)
	}
	return nil
}

// followerAuthority is the CA as the leader has left it.
type followerAuthority struct {
	c   config.Config
	log *slog.Logger

	mu        sync.Mutex
	store     *store.Store   // nil until it is followed
	authority *pki.Authority // nil until it is complete
	said      string         // why it is not
}

// changed is called after each commit of the leader.
func (d *followerAuthority) changed(tx *store.Tx) {
	keys, err := tx.Authority().ChangedKeys()
	if err == nil && len(keys) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.load()
}

// follow waits for the authority, which is complete after the leader's first start, and for
// etcd to confirm that what is held is up to date. It is nil if ctx ends.
func (d *followerAuthority) follow(ctx context.Context, s *store.Store) (*pki.Authority, error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if a := d.with(s); a != nil {
			return a, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-s.Over():
			return nil, s.Why()
		case <-tick.C:
		}
	}
}

func (d *followerAuthority) with(s *store.Store) *pki.Authority {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.store = s
	if d.authority == nil {
		d.load()
	}
	return d.authority
}

// load takes the authority over. It is not complete before the leader's first start is.
func (d *followerAuthority) load() {
	switch {
	case d.store == nil: // follow comes
	case d.authority != nil:
		if err := d.authority.Reload(); err != nil {
			d.log.Error("the certificates are not those of the leader", "error", err)
		}
	default:
		authority, err := pki.Load(pki.Options{Store: d.store, ReadOnly: true, Dir: filepath.Join(d.c.DataDirectory, "pki"), Names: core.CertificateNames(d.c.Names), Log: d.log})
		if err != nil {
			if d.said != err.Error() {
				d.log.Warn("not serving yet", "because", err)
			}
			d.said = err.Error()
			return
		}
		d.authority = authority
	}
}
