package etcd

import (
	"context"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// pageKeys bounds what one answer of a load has.
const pageKeys = 500

// load calls fn with each record, in the order of their keys, all as they are at one revision
// that a quorum of etcd had when load was called, or a later one.
func (c *Client) load(ctx context.Context, fn func(key string, value []byte) error) (at Position, err error) {
	found, err := within(ctx, pageLimit, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return c.etcd.Get(ctx, c.headKey())
	})
	if err != nil {
		return at, fmt.Errorf("loading from etcd: %w", err)
	}
	at = Position{Cluster: clusterOf(found.Header), Revision: found.Header.Revision}
	if len(found.Kvs) > 0 {
		at.HeadRevision, at.Head = found.Kvs[0].ModRevision, found.Kvs[0].Value
	}
	prefix := c.records()
	from, to := prefix, clientv3.GetPrefixRangeEnd(prefix)
	for {
		page, err := within(ctx, pageLimit, func(ctx context.Context) (*clientv3.GetResponse, error) {
			return c.etcd.Get(ctx, from, clientv3.WithRange(to), clientv3.WithLimit(pageKeys), clientv3.WithRev(at.Revision))
		})
		if err != nil {
			return at, fmt.Errorf("loading from etcd: %w", err)
		}
		for _, kv := range page.Kvs {
			if err := fn(strings.TrimPrefix(string(kv.Key), prefix), kv.Value); err != nil {
				return at, err
			}
		}
		if !page.More {
			return at, nil
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}
