package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/nodehitch/nodehitch/shared/api"
)

// Replica is a controller that is alive, as it says itself.
type Replica struct {
	// ID is its name among the replicas; the leader's key has it.
	ID string `json:"id"`
	// URL is where other replicas reach it, "" for nowhere.
	URL string `json:"url"`
	// Version is the program's, Schema the highest one of the records that it knows.
	Version string `json:"version"`
	Schema  int    `json:"schema"`
	// Leader says that it is the leader.
	Leader bool `json:"-"`
}

func (c *Client) replicas() string { return c.o.Prefix + "/replicas/" }

// Replicas are those that are alive, ordered by their ids.
func (c *Client) Replicas(ctx context.Context) ([]Replica, error) {
	if err := c.connect(); err != nil {
		return nil, fmt.Errorf("connecting to etcd: %w", err)
	}
	answer, err := within(ctx, callLimit, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return c.etcd.Txn(ctx).Then(clientv3.OpGet(c.replicas(), clientv3.WithPrefix()), clientv3.OpGet(c.leaderKey())).Commit()
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", c.replicas(), err)
	}
	var leader string
	if kvs := answer.Responses[1].GetResponseRange().Kvs; len(kvs) > 0 {
		leader = string(kvs[0].Value)
	}
	var list []Replica
	for _, kv := range answer.Responses[0].GetResponseRange().Kvs {
		var r Replica
		if err := json.Unmarshal(kv.Value, &r); err != nil || c.replicas()+r.ID != string(kv.Key) {
			return nil, fmt.Errorf("%s in etcd is %.200q; expected what a replica with this id says of itself: delete the key", kv.Key, kv.Value)
		}
		r.Leader = r.ID == leader
		list = append(list, r)
	}
	return list, nil
}

// CheckSchema refuses to bring the records to a schema that a live replica does not know: it
// could not become the leader any more.
func CheckSchema(live []Replica, schema int) error {
	var old []string
	for _, r := range live {
		if r.Schema < schema {
			old = append(old, fmt.Sprintf("%s (version %s, schema %d)", r.ID, r.Version, r.Schema))
		}
	}
	if len(old) == 0 {
		return nil
	}
	return fmt.Errorf("the records are not brought to schema %d: %s could not read them; upgrade or stop that first", schema, strings.Join(old, ", "))
}

// ErrSameID says that another process is the replica of this id.
var ErrSameID = errors.New("another process is the replica of this id")

// Member is this process as one of the replicas.
type Member struct {
	client *Client
	self   Replica
	text   string
	lease  clientv3.LeaseID

	mu   sync.Mutex
	live []Replica
	// asked is when etcd was asked for live.
	asked time.Time
	// why is the error of the last question, nil if etcd has answered it.
	why error
}

// Join makes this process the replica of that id. If etcd knows one already, it waits for as
// long as that can be a process that was killed; then its error is ErrSameID, or at once
// ErrRefused. Run keeps the process a replica.
func (c *Client) Join(ctx context.Context, self Replica) (*Member, error) {
	if self.ID == "" || strings.Contains(self.ID, "/") {
		return nil, fmt.Errorf("the replica's id is %q; expected a name without a slash", self.ID)
	}
	text, err := json.Marshal(self)
	if err != nil {
		return nil, err
	}
	m := &Member{client: c, self: self, text: string(text)}
	// etcd looks for leases that have ended each half second, and prolongs all of them when
	// it has elected another leader.
	killed, cancel := context.WithTimeoutCause(ctx, 2*c.o.TTL+callLimit, errors.New("etcd does not answer as expected"))
	defer cancel()
	said, taken := false, "" // taken by whom, as etcd said last
	for {
		other, err := m.register(killed)
		if err == nil || killed.Err() == nil { // a call that the end has cut off says nothing
			taken = other
		}
		if err == nil && other == "" {
			return m, m.refresh(ctx)
		}
		if refused := c.refusal(err); refused != nil {
			return nil, refused
		}
		switch {
		case said:
		case other != "":
			c.o.Log.Info("waiting for the end of the process that was this replica", "id", self.ID, "says", other)
			said = true
		case ctx.Err() == nil:
			c.o.Log.Warn("not a replica yet: etcd does not answer as expected", "because", errors.Join(err, c.handshakes(ctx)))
			said = true
		}
		select {
		case <-killed.Done():
			if ctx.Err() == nil && taken != "" {
				return nil, m.taken(taken)
			}
			return nil, errors.Join(fmt.Errorf("becoming the replica %q: %w", self.ID, context.Cause(killed)), err)
		case <-time.After(c.o.TTL / 10):
		}
	}
}

func (m *Member) key() string { return m.client.replicas() + m.self.ID }

func (m *Member) taken(other string) error {
	return fmt.Errorf("%w: %q is taken by %s: give each controller a replica.id of its own", ErrSameID, m.self.ID, other)
}

// register writes the key under a lease of its own, unless another process has: it returns
// what that says of itself.
func (m *Member) register(ctx context.Context) (other string, err error) {
	if err := m.client.connect(); err != nil {
		return "", fmt.Errorf("connecting to etcd: %w", err)
	}
	lease, err := within(ctx, callLimit, func(ctx context.Context) (*clientv3.LeaseGrantResponse, error) {
		return m.client.etcd.Grant(ctx, int64(m.client.o.TTL/time.Second))
	})
	if err != nil {
		return "", fmt.Errorf("asking for a lease: %w", err)
	}
	answer, err := within(ctx, callLimit, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return m.client.etcd.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(m.key()), "=", 0)).
			Then(clientv3.OpPut(m.key(), m.text, clientv3.WithLease(lease.ID))).Else(clientv3.OpGet(m.key())).Commit()
	})
	if err == nil && !answer.Succeeded {
		kv := answer.Responses[0].GetResponseRange().Kvs[0]
		// etcd's client may have sent the call twice.
		if kv.Lease != int64(lease.ID) {
			m.client.revoke(ctx, lease.ID)
			return string(kv.Value), nil
		}
	}
	if err != nil {
		m.client.revoke(ctx, lease.ID)
		return "", fmt.Errorf("writing %s: %w", m.key(), err)
	}
	m.lease = lease.ID
	return "", nil
}

// Run keeps the process a replica until ctx ends, and what Live returns at most a second old
// while etcd answers. Its error is ErrSameID if the process lost its place and another one has
// it.
func (m *Member) Run(ctx context.Context) error {
	tick := time.NewTicker(m.client.o.TTL / 10)
	defer tick.Stop()
	defer func() { m.client.revoke(ctx, m.lease) }() // that of the end
	warned := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := m.renew(ctx)
		if errors.Is(err, ErrSameID) {
			return err
		}
		err = errors.Join(err, m.refresh(ctx))
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			m.client.o.Log.Debug("etcd does not list the live replicas", "error", err)
		}
		_, unknown := m.Known()
		if unknown != nil && !warned {
			m.client.o.Log.Warn("the list of live replicas is out of date", "because", unknown)
		}
		warned = unknown != nil
	}
}

// renew keeps the lease; if it has ended, the process becomes a replica anew.
func (m *Member) renew(ctx context.Context) error {
	_, err := within(ctx, min(callLimit, m.client.o.TTL/5), func(ctx context.Context) (*clientv3.LeaseKeepAliveResponse, error) {
		return m.client.etcd.KeepAliveOnce(ctx, m.lease)
	})
	if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return err
	}
	other, err := m.register(ctx)
	if other != "" {
		return m.taken(other)
	}
	if err == nil {
		m.client.o.Log.Warn("etcd had forgotten this replica: it was silent for too long", "id", m.self.ID)
	}
	return err
}

func (m *Member) refresh(ctx context.Context) error {
	asked := time.Now()
	live, err := m.client.Replicas(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.why = err; err == nil {
		m.live, m.asked = live, asked
	}
	return err
}

// Known is Live while no replica of it can have been gone for much longer than its lease. Else its
// error is an *api.Problem: etcd does not say who is alive.
func (m *Member) Known() ([]Replica, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if silent := time.Since(m.asked); silent >= m.client.o.TTL {
		detail := fmt.Sprintf("this controller does not know which replicas are alive: the last list from etcd is %s old, so try again", silent.Truncate(time.Second))
		if m.why != nil {
			detail += fmt.Sprintf(" (%v)", m.why)
		}
		return nil, api.NewProblem(api.ProblemUnavailable, detail)
	}
	return slices.Clone(m.live), nil
}

// Live are the replicas that are alive, ordered by their ids, this one included.
func (m *Member) Live() []Replica {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.live)
}

// Others are the URLs of the other replicas that are alive.
func (m *Member) Others() (urls []string) {
	for _, r := range m.Live() {
		if r.ID != m.self.ID && r.URL != "" {
			urls = append(urls, r.URL)
		}
	}
	return urls
}

// Led says that one of the replicas is the leader.
func (m *Member) Led() bool {
	return slices.ContainsFunc(m.Live(), func(r Replica) bool { return r.Leader })
}

// Leader is the URL of the leader, "" if there is none, or if it is this process.
func (m *Member) Leader() string {
	for _, r := range m.Live() {
		if r.Leader && r.ID != m.self.ID {
			return r.URL
		}
	}
	return ""
}
