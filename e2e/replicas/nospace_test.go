package replicas

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/client"
)

// TestNoSpace fills etcd up to its quota.
func TestNoSpace(t *testing.T) {
	longOnly(t, "no space")
	quota := 64 << 20
	if results.Full() {
		quota = 256 << 20
	}
	w := open(t, 3, 3, fmt.Sprintf("--quota-backend-bytes=%d", quota))
	w.phase(t, "etcd without space", "nothing is acknowledged, all else goes on with the same leader, and no controller has to be started again", func(c *results.Case) {
		leader, ends := w.leader(), w.ends()
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Minute)
		defer cancel()
		full := 0
		for {
			_, err := w.db.Put(ctx, fmt.Sprintf("/others/%d", full), strings.Repeat("x", 1<<20))
			if errors.Is(err, rpctypes.ErrNoSpace) {
				break
			}
			w.must(err)
			full++
		}
		c.Figure("filled with", "%d MiB of other keys", full)
		w.outage()
		one := w.caller(97)
		one.at = slices.Index(w.controllers, leader)
		_, err := one.once(func(a *client.Controller) error {
			return client.Done(a.PutInstance(w.t.Context(), id(9, w.phases), nil, spec(w.t, loopback.ClusterParams(""), nil)))
		})
		if err == nil || !strings.Contains(err.Error(), "space is used up") {
			w.t.Errorf("a change in an etcd without space: %v", err)
		}
		w.must(w.caller(98).until(func(a *client.Controller) error { return client.Done(a.ListInstances(w.t.Context(), nil)) }))
		_, err = w.db.Delete(ctx, "/others/", clientv3.WithPrefix())
		w.must(err)
		at, err := w.db.Get(ctx, "/others/")
		w.must(err)
		_, err = w.db.Compact(ctx, at.Header.Revision, clientv3.WithCompactPhysical())
		w.must(err)
		for _, m := range w.etcd.Members {
			_, err = w.db.Defragment(ctx, m.URL)
			w.must(err)
		}
		_, err = w.db.AlarmDisarm(ctx, &clientv3.AlarmMember{})
		w.must(err)
		if now := w.leader(); now != leader || w.ends() != ends {
			w.t.Errorf("the leader was %s and is %s; controllers have ended %d times", leader.name, now.name, w.ends()-ends)
		}
	})
}

// ends is how often controllers have ended.
func (w *installation) ends() (n int) {
	for _, c := range w.controllers {
		n += c.ended()
	}
	return n
}
