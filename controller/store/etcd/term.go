package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nodehitch/nodehitch/shared/api"
)

// Why a term is over.
var (
	// ErrLost: the lease has ended, another controller may be the leader, or etcd's history
	// is not the one that this term has written.
	ErrLost = errors.New("this controller is not the leader any more")
	// ErrStale: etcd did not confirm the lease in time, so another controller may be the leader soon.
	ErrStale = errors.New("etcd has not confirmed in time that this controller is the leader")
	// ErrOutcomeUnknown: a commit was neither confirmed nor refused.
	ErrOutcomeUnknown = errors.New("etcd has not confirmed a change, so it is not known whether it holds that change")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("the term was ended by this controller")
)

// Term is the time in which this controller alone is the leader. It ends for good when etcd
// is silent for too long, when a commit has an unknown outcome, or with Close. The next term
// must load everything anew.
type Term struct {
	client *Client
	lease  clientv3.LeaseID
	// number is the create revision of the leader's key: no two terms have the same.
	number  int64
	since   time.Time
	cluster string
	limits  limits

	// committing is locked while a commit is on its way: there is one at a time.
	committing sync.Mutex

	mu sync.Mutex
	// renewed is when the last confirmed call for the lease was sent.
	renewed time.Time
	// revision is the highest one that etcd has told, head that of the last commit (0: none ever).
	revision, head int64
	why            error // nil until over is closed
	over           chan struct{}
	idle           chan struct{} // closed when the lease is no longer renewed
	given          sync.Once     // of the lease, back to etcd
}

func newTerm(c *Client, lease clientv3.LeaseID, header *pb.ResponseHeader, began time.Time, most limits) *Term {
	t := &Term{client: c, lease: lease, number: header.Revision, since: began, revision: header.Revision, cluster: clusterOf(header),
		limits: most, renewed: began, over: make(chan struct{}), idle: make(chan struct{})}
	go t.renew()
	c.o.Log.Info("this controller is the leader", "term", t.number, "transactionChanges", most.changes, "transactionBytes", most.bytes)
	return t
}

// Over is closed when the term has ended.
func (t *Term) Over() <-chan struct{} { return t.over }

// Number tells the term from all others: a later one has a higher number.
func (t *Term) Number() int64 { return t.number }

// Since is when the term began, by the clock of this controller.
func (t *Term) Since() time.Time { return t.since }

// Why says why the term has ended, nil before that.
func (t *Term) Why() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.why
}

// Limits are how many records one commit can change, and how many bytes they may have
// together: of each its key, its value and Overhead.
func (t *Term) Limits() (changes, bytes int) { return t.limits.changes, t.limits.bytes }

// Position is etcd's cluster and the highest revision that this term knows.
func (t *Term) Position() (cluster string, revision int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cluster, t.revision
}

// Check returns nil while no other controller can be the leader. Else the term is over, and
// its error is an *api.Problem: what this controller knows may be out of date.
func (t *Term) Check() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.check()
}

func (t *Term) check() error {
	if t.why == nil && time.Since(t.renewed) > t.freshness() {
		t.endLocked(ErrStale)
	}
	if t.why == nil {
		return nil
	}
	return fmt.Errorf("%w (%w)", api.NewProblem(api.ProblemUnavailable,
		"this controller is not the leader any more: ask another one, or this one again once it is"), t.why)
}

// freshness is how long after a confirmed call for the lease no other controller can be the
// leader, with time to spare for clocks that run at different speeds.
func (t *Term) freshness() time.Duration { return t.client.o.TTL * 7 / 10 }

func (t *Term) end(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLocked(why)
}

func (t *Term) endLocked(why error) {
	if t.why != nil {
		return
	}
	t.why = why
	close(t.over)
	if !errors.Is(why, ErrClosed) {
		t.client.o.Log.Warn("the term as the leader is over", "term", t.number, "because", why)
	}
}

// renew keeps the lease until the term is over.
func (t *Term) renew() {
	defer close(t.idle)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { <-t.over; cancel() }()
	tick := time.NewTicker(t.client.o.TTL / 5)
	defer tick.Stop()
	for t.Check() == nil {
		sent := time.Now()
		answer, err := within(ctx, min(callLimit, t.client.o.TTL/5), func(ctx context.Context) (*clientv3.LeaseKeepAliveResponse, error) {
			return t.client.etcd.KeepAliveOnce(ctx, t.lease)
		})
		switch {
		case err == nil:
			t.renewedAt(sent, answer.ResponseHeader)
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			t.end(fmt.Errorf("%w: its lease has ended", ErrLost))
		}
		if err != nil {
			t.client.o.Log.Debug("etcd has not confirmed the lease", "error", err)
		}
		select {
		case <-t.over:
		case <-tick.C:
		}
	}
}

func (t *Term) renewedAt(sent time.Time, header *pb.ResponseHeader) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.check() == nil && t.follows(header) {
		t.renewed = sent
	}
}

// follows ends the term if etcd's history is not the one that it was.
func (t *Term) follows(header *pb.ResponseHeader) bool {
	if header == nil || clusterOf(header) != t.cluster {
		t.endLocked(fmt.Errorf("%w: another cluster of etcd answers", ErrLost))
		return false
	}
	return true
}

func clusterOf(header *pb.ResponseHeader) string {
	return strconv.FormatUint(header.GetClusterId(), 16)
}

// Load calls fn with each record as it is at the beginning of the term, in the order of their
// keys, and returns what the last commit of all terms has put as its head, nil if there was
// none. No commit of an earlier term can come after it. Call it once, before the first Commit.
func (t *Term) Load(ctx context.Context, fn func(key string, value []byte) error) (head []byte, err error) {
	// If the revision is compacted meanwhile, the load fails, and so does this term.
	at, err := t.client.load(ctx, fn)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revision, t.head = max(t.revision, at.Revision), at.HeadRevision
	return at.Head, t.check()
}

// Commit makes all changes, values by key and nil for a key that is deleted, and puts the head,
// or does none of it. When it returns nil, a quorum of etcd has them on disk. Its error is an
// *api.Problem. If the error is not one of the limits or of etcd's space, the term is over,
// and the changes may have been made.
func (t *Term) Commit(head []byte, changes map[string][]byte) error {
	t.committing.Lock()
	defer t.committing.Unlock()
	if err := t.Check(); err != nil {
		return err
	}
	answer, err := within(context.Background(), commitLimit(changes), func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return t.client.etcd.Txn(ctx).If(t.fence()...).Then(t.operations(head, changes)...).Commit()
	})
	if errors.Is(err, rpctypes.ErrNoSpace) {
		return t.withoutSpace(err)
	}
	if err == nil && !answer.Succeeded {
		// Another term has begun, or etcd's client has sent again what etcd had done already.
		err = ErrLost
	}
	if err != nil {
		return t.notCommitted(err)
	}
	t.committed(answer.Header)
	return nil
}

// commitLimit is how long a commit may take: as long as any call, and a second more for each
// MiB and for each thousand changes, which a quorum of etcd writes to its disks.
func commitLimit(changes map[string][]byte) time.Duration {
	limit := callLimit
	for key, value := range changes {
		limit += time.Millisecond + time.Duration(len(key)+len(value))*time.Second>>20
	}
	return limit
}

// fence is what every commit is conditional on: the term goes on, and etcd has what this
// term's last commit has left. The second part refuses a history that went back under a
// running leader with its key and lease.
func (t *Term) fence() []clientv3.Cmp {
	t.mu.Lock()
	defer t.mu.Unlock()
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(t.client.leaderKey()), "=", t.number),
		clientv3.Compare(clientv3.ModRevision(t.client.headKey()), "=", t.head),
	}
}

func (t *Term) operations(head []byte, changes map[string][]byte) []clientv3.Op {
	operations := []clientv3.Op{clientv3.OpPut(t.client.headKey(), string(head))}
	prefix := t.client.records()
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		if value := changes[key]; value == nil {
			operations = append(operations, clientv3.OpDelete(prefix+key))
		} else {
			operations = append(operations, clientv3.OpPut(prefix+key, string(value)))
		}
	}
	return operations
}

func (t *Term) committed(header *pb.ResponseHeader) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revision, t.head = header.Revision, header.Revision
}

// withoutSpace finds out whether the commit that etcd refused for want of space was made:
// the one that etcd notices it with is.
func (t *Term) withoutSpace(cause error) error {
	found, err := within(context.Background(), callLimit, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return t.client.etcd.Get(ctx, t.client.headKey())
	})
	if err != nil {
		return t.notCommitted(errors.Join(cause, err))
	}
	var head int64
	if len(found.Kvs) > 0 {
		head = found.Kvs[0].ModRevision
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if head == t.head {
		return refused(cause)
	}
	// While the lease is this term's, nobody else has changed it.
	t.head, t.revision = head, max(t.revision, found.Header.Revision)
	return t.check()
}

// notCommitted explains why etcd did not confirm the commit. Unless etcd has refused it
// before it did anything, that ends the term.
func (t *Term) notCommitted(err error) error {
	switch code(err) {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.ResourceExhausted:
		if !errors.Is(err, rpctypes.ErrNoSpace) {
			return refused(err)
		}
	}
	why := fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	t.end(why)
	return fmt.Errorf("%w (%w)", api.NewProblem(api.ProblemUnavailable,
		"etcd did not confirm the change and the controller starts again: then check whether the request was done"), why)
}

func code(err error) codes.Code {
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		return known.Code()
	}
	return status.Code(err)
}

// refused is the problem of a commit that etcd has refused as a whole.
func refused(err error) error {
	detail := fmt.Sprintf("etcd takes no changes (%v), so nothing of this request was kept: repair etcd, then try again; the controller needs no restart", err)
	if errors.Is(err, rpctypes.ErrNoSpace) {
		detail = "etcd's space is used up, so nothing of this request was kept: compact and defragment etcd or raise its --quota-backend-bytes, then disarm its alarm; the controller needs no restart"
	}
	return fmt.Errorf("%w (%w)", api.NewProblem(api.ProblemUnavailable, detail), err)
}

// Close ends the term, so that another controller need not wait for the end of the lease. It
// waits for a commit that is on its way. Another call does nothing.
func (t *Term) Close() error {
	t.committing.Lock()
	defer t.committing.Unlock()
	t.end(ErrClosed)
	<-t.idle
	t.given.Do(func() { t.client.revoke(context.Background(), t.lease) })
	return nil
}
