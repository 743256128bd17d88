package etcd

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
)

// What is looked for at most: more than the largest instance needs.
const (
	mostChanges = 8192
	mostBytes   = 8 << 20
	bytesStep   = 64 << 10
)

// Overhead is what a record takes in a transaction besides its key and its value, at most,
// and the prefix of the key.
func (t *Term) Overhead() int { return len(t.client.records()) + 32 }

// limits asks etcd how many operations (--max-txn-ops) and bytes (--max-request-bytes) it
// takes in a transaction: it refuses larger ones before it looks at their condition, and the
// condition of these never holds. So nothing is written.
func (c *Client) limits(ctx context.Context) (l limits, err error) {
	changes, err := largest(mostChanges, func(n int) error { return c.probe(ctx, n, 0) })
	if err != nil {
		return l, err
	}
	steps, err := largest(mostBytes/bytesStep, func(n int) error { return c.probe(ctx, 1, n*bytesStep) })
	if err == nil && (changes < 2 || steps < 1) {
		err = fmt.Errorf("etcd takes %d operations and %d bytes in a transaction: raise its --max-txn-ops and --max-request-bytes", changes, steps*bytesStep)
	}
	return limits{changes: changes - 1, bytes: steps*bytesStep - headRoom}, err // the head is a change too
}

// limits of a commit; see Term.Limits.
type limits struct{ changes, bytes int }

// headRoom is for the head and for what a transaction has but its changes.
const headRoom = 4 << 10

// largest is the largest number up to most that try accepts; its error is one that says
// nothing about that.
func largest(most int, try func(int) error) (int, error) {
	var failed error
	n := sort.Search(most, func(i int) bool {
		err := try(i + 1)
		if err == nil {
			return false
		}
		if got := code(err); got != codes.InvalidArgument && got != codes.ResourceExhausted || errors.Is(err, rpctypes.ErrNoSpace) {
			failed = errors.Join(failed, err)
		}
		return true
	})
	return n, failed
}

// probe asks for a transaction whose condition never holds. It deletes, and has its bytes in
// the condition: what is put etcd would count against its quota before it looks at the
// condition, and raise its alarm; keys it would write to its log.
func (c *Client) probe(ctx context.Context, changes, bytes int) error {
	operations := make([]clientv3.Op, changes)
	for i := range operations {
		operations[i] = clientv3.OpDelete(c.records() + strconv.Itoa(i))
	}
	conditions := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(c.leaderKey()), "<", 0)}
	if bytes > 0 {
		conditions = append(conditions, clientv3.Compare(clientv3.Value(c.leaderKey()), "=", strings.Repeat("x", bytes-headRoom/2)))
	}
	_, err := within(ctx, pageLimit, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return c.etcd.Txn(ctx).If(conditions...).Then(operations...).Commit()
	})
	return err
}
