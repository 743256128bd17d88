// Package etcd is the part of an etcd that the controllers of one state share: it elects one
// of them, the leader, and lets only that one change the records; the others follow it. It
// knows nothing of what the records are; controller/store keeps them by it.
//
// All keys lie under a prefix. <prefix>/writer is the leader's, under a lease;
// <prefix>/head is changed by every commit; <prefix>/v1/<key> are the records;
// <prefix>/replicas/<id> are the controllers that are alive, each under a lease.
package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/nodehitch/nodehitch/shared/sleep"
)

const (
	// defaultTTL is how long etcd waits for a leader that is silent before another may
	// become the leader.
	defaultTTL = 10 * time.Second
	// callLimit is how long one call may take.
	callLimit = 2 * time.Second
	// pageLimit is how long a page of a load may take, which is large and may be asked for again.
	pageLimit = 10 * time.Second
)

// Options says which etcd, and who asks.
type Options struct {
	// Endpoints are the URLs of its members.
	Endpoints []string
	// Prefix is that of all keys, such as /nodehitch, without a slash at its end.
	Prefix string
	// TLS is nil for endpoints with http.
	TLS *tls.Config
	// Username and Password are empty if etcd has no authentication or takes it from the
	// client's certificate.
	Username, Password string
	// Name is this controller's in the leader's key: the id of its replica.
	Name string
	// TTL of the leader's lease in whole seconds, 10 s when zero. A leader answers nothing
	// once three tenths of it are left. Tests shorten it.
	TTL time.Duration
	Log *slog.Logger
}

// Client is a connection to etcd, which the first call makes.
type Client struct {
	o      Options
	config clientv3.Config

	connecting sync.Mutex
	etcd       *clientv3.Client // nil until it is connected
}

// New is a client that has not called etcd yet.
func New(o Options) *Client {
	if o.TTL == 0 {
		o.TTL = defaultTTL
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	// A member that is cut off is noticed after 7 s, else only after TCP's minutes; more
	// often than each 5 s etcd's default does not allow.
	return &Client{o: o, config: clientv3.Config{Endpoints: o.Endpoints, TLS: o.TLS, Username: o.Username, Password: o.Password,
		DialKeepAliveTime: 5 * time.Second, DialKeepAliveTimeout: callLimit, DialTimeout: callLimit,
		MaxCallSendMsgSize: 2 * mostBytes, Logger: zap.NewNop()}}
}

// connect authenticates with etcd if there is a password.
func (c *Client) connect() (err error) {
	c.connecting.Lock()
	defer c.connecting.Unlock()
	if c.etcd == nil {
		c.etcd, err = clientv3.New(c.config)
	}
	return err
}

// Close ends the connection. A term that is not closed ends when its lease does.
func (c *Client) Close() error {
	if c.etcd == nil {
		return nil
	}
	return c.etcd.Close()
}

func (c *Client) leaderKey() string { return c.o.Prefix + "/writer" }
func (c *Client) headKey() string   { return c.o.Prefix + "/head" }
func (c *Client) records() string   { return c.o.Prefix + "/v1/" }

// Position is how far etcd's history has come.
type Position struct {
	// Cluster is etcd's own id of its cluster, in hexadecimal.
	Cluster string
	// Revision is that of all of etcd, also of what others keep in it.
	Revision int64
	// HeadRevision is that of the last commit, 0 before the first.
	HeadRevision int64
	// Head is what the last commit has put there, nil before the first.
	Head []byte
	// Leader is the name of the leader, "" if there is none.
	Leader string
	// Term is the number of the leader's term, 0 if there is none.
	Term int64
}

// Campaign waits until this controller is the leader, or ctx ends, or etcd refuses this
// client. Meanwhile it tells seen each second how far the history has come. It is not to be
// called twice at the same time.
func (c *Client) Campaign(ctx context.Context, seen func(Position)) (*Term, error) {
	tick := time.NewTicker(c.o.TTL / 10)
	defer tick.Stop()
	var said string
	var most limits
	for {
		term, state, err := c.elect(ctx, seen, &most)
		if term != nil {
			return term, nil
		}
		if err != nil {
			if refused := c.refusal(err); refused != nil {
				return nil, refused
			}
			state = "etcd does not answer as expected: " + errors.Join(err, c.handshakes(ctx)).Error()
		}
		if said != state {
			level := slog.LevelInfo
			if err != nil {
				level = slog.LevelWarn
			}
			c.o.Log.Log(ctx, level, "waiting to become the leader", "because", state)
			said = state
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting to become the leader: %w", context.Cause(ctx)), err)
		case <-tick.C:
		}
	}
}

// elect makes this controller the leader if there is none, and else says why it does not.
func (c *Client) elect(ctx context.Context, seen func(Position), most *limits) (term *Term, state string, err error) {
	if err := c.connect(); err != nil {
		return nil, "", fmt.Errorf("connecting: %w", err)
	}
	holder, err := c.look(ctx, seen)
	if err != nil {
		return nil, "", err
	}
	// Once, and not when the leader has died.
	if most.changes == 0 {
		if *most, err = c.limits(ctx); err != nil {
			return nil, "", fmt.Errorf("finding out how large a transaction etcd takes: %w", err)
		}
	}
	if holder != "" {
		return nil, fmt.Sprintf("the leader is %q", holder), nil
	}
	began := time.Now() // before etcd's clock of the lease begins
	lease, err := within(ctx, callLimit, func(ctx context.Context) (*clientv3.LeaseGrantResponse, error) {
		return c.etcd.Grant(ctx, int64(c.o.TTL/time.Second))
	})
	if err != nil {
		return nil, "", fmt.Errorf("asking for a lease: %w", err)
	}
	key := c.leaderKey()
	answer, err := within(ctx, callLimit, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return c.etcd.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, c.o.Name, clientv3.WithLease(lease.ID))).Commit()
	})
	if err == nil && answer.Succeeded {
		return newTerm(c, lease.ID, answer.Header, began, *most), "", nil
	}
	// If the key was written and the answer is lost, it goes with the lease.
	c.revoke(ctx, lease.ID)
	if err != nil {
		return nil, "", fmt.Errorf("writing %s: %w", key, err)
	}
	return nil, "another controller became the leader", nil
}

// look reads who the leader is, "" for nobody.
func (c *Client) look(ctx context.Context, seen func(Position)) (leader string, err error) {
	answer, err := within(ctx, callLimit, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return c.etcd.Txn(ctx).Then(clientv3.OpGet(c.leaderKey()), clientv3.OpGet(c.headKey())).Commit()
	})
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", c.leaderKey(), err)
	}
	at := Position{Cluster: clusterOf(answer.Header), Revision: answer.Header.Revision}
	if head := answer.Responses[1].GetResponseRange().Kvs; len(head) > 0 {
		at.HeadRevision, at.Head = head[0].ModRevision, head[0].Value
	}
	if kvs := answer.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		at.Leader, at.Term = string(kvs[0].Value), kvs[0].CreateRevision
	}
	if seen != nil {
		seen(at)
	}
	return at.Leader, nil
}

// revoke ends a lease at once; if it fails, etcd does when its time is over.
func (c *Client) revoke(ctx context.Context, lease clientv3.LeaseID) {
	_, err := within(context.WithoutCancel(ctx), callLimit, func(ctx context.Context) (*clientv3.LeaseRevokeResponse, error) {
		return c.etcd.Revoke(ctx, lease)
	})
	if err != nil {
		c.o.Log.Debug("the lease was not given back; it ends by itself", "error", err)
	}
}

// noLeaderPause is how long to wait before a call that a member without a leader has refused
// is made again: etcd's client asks its members in turn.
const noLeaderPause = 50 * time.Millisecond

// within makes a call that may take so long. A member that the others do not reach refuses it
// before it does anything, instead of being silent; then another member is asked.
func within[T any](ctx context.Context, limit time.Duration, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), limit)
	defer cancel()
	for {
		answer, err := call(ctx)
		if !errors.Is(err, rpctypes.ErrNoLeader) {
			return answer, err
		}
		if sleep.For(ctx, noLeaderPause, nil) != nil {
			return answer, err
		}
	}
}
