package etcd_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/nodehitch/nodehitch/controller/store/etcd"
	"github.com/nodehitch/nodehitch/e2e/kube/etcdtest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
)

func replicaOf(id string) etcd.Replica {
	return etcd.Replica{ID: id, URL: "https://" + id + ":9443", Version: "1.2.3", Schema: 4}
}

// join makes a process a replica and keeps it one until stop, or the end of the test.
func join(t *testing.T, c *etcd.Client, self etcd.Replica) (m *etcd.Member, ended <-chan error, stop func()) {
	t.Helper()
	m, err := c.Join(t.Context(), self)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done, gone := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(gone)
		done <- m.Run(ctx)
	}()
	stop = func() { cancel(); <-gone }
	t.Cleanup(stop)
	return m, done, stop
}

func idsOf(live []etcd.Replica) string {
	var ids []string
	for _, r := range live {
		ids = append(ids, r.ID)
	}
	return strings.Join(ids, " ")
}

func TestReplicasKnowWhoIsThere(t *testing.T) {
	t.Parallel()
	endpoints := etcdtest.Open(t, 1).Endpoints()
	as := func(id string) *etcd.Client { return connect(t, endpoints, func(o *etcd.Options) { o.Name = id }) }
	a, b := as("a"), as("b")
	first, _, _ := join(t, a, replicaOf("a"))
	second, _, stop := join(t, b, replicaOf("b"))
	if got := second.Live(); len(got) != 2 || got[0] != replicaOf("a") || got[1] != replicaOf("b") {
		t.Errorf("at once b knows %+v", got)
	}
	loopback.Until(t, "a knows b", func() bool { return len(first.Others()) == 1 && first.Others()[0] == "https://b:9443" })
	if first.Leader() != "" || second.Leader() != "" {
		t.Error("there is a leader")
	}
	term := campaign(t, a)
	loopback.Until(t, "b knows the leader", func() bool { return second.Leader() == "https://a:9443" })
	loopback.Until(t, "a knows that it is the leader", func() bool { live := first.Live(); return live[0].Leader && !live[1].Leader })
	if first.Leader() != "" {
		t.Error("the leader would forward to itself")
	}
	must(t, term.Close())
	loopback.Until(t, "b knows that there is no leader", func() bool { return second.Leader() == "" })
	stop()
	loopback.Until(t, "a knows that b has gone", func() bool { return idsOf(first.Live()) == "a" })
}

// The process of the id is alive: the second one says so and ends. When the first one was
// killed, the second one takes its place.
func TestTwoProcessesWithOneID(t *testing.T) {
	t.Parallel()
	endpoints := etcdtest.Open(t, 1).Endpoints()
	short := func(o *etcd.Options) { o.TTL = 2 * time.Second }
	_, ended, _ := join(t, connect(t, endpoints, short), replicaOf("a"))
	_, err := connect(t, endpoints, short).Join(t.Context(), replicaOf("a"))
	if !errors.Is(err, etcd.ErrSameID) || !strings.Contains(err.Error(), `"a"`) || !strings.Contains(err.Error(), "https://a:9443") {
		t.Errorf("error %v", err)
	}
	select {
	case err := <-ended:
		t.Errorf("the first process has ended: %v", err)
	default:
	}
	killed, err := connect(t, endpoints, short).Join(t.Context(), replicaOf("b")) // nobody runs it
	must(t, err)
	next, err := connect(t, endpoints, short).Join(t.Context(), replicaOf("b"))
	must(t, err)
	if idsOf(next.Live()) != "a b" {
		t.Errorf("alive: %s", idsOf(next.Live()))
	}
	// The one that was thought to be killed was only slow.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := killed.Run(ctx); !errors.Is(err, etcd.ErrSameID) {
		t.Errorf("error %v", err)
	}
}

// A replica that was killed is gone once its lease has ended, and nobody takes what was known for
// what is, if etcd does not say so any more.
func TestWhoIsKnownToBeAlive(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Open(t, 1)
	short := func(o *etcd.Options) { o.TTL = 2 * time.Second }
	m, _, _ := join(t, connect(t, cluster.Endpoints(), short), replicaOf("a"))
	_, err := connect(t, cluster.Endpoints(), short).Join(t.Context(), replicaOf("b")) // nobody runs it
	must(t, err)
	known := func() string {
		live, err := m.Known()
		must(t, err)
		return idsOf(live)
	}
	loopback.Until(t, "a knows b", func() bool { return known() == "a b" })
	loopback.Until(t, "b is gone", func() bool { return known() == "a" })
	cluster.Members[0].Kill()
	loopback.Until(t, "nobody is known to be alive", func() bool {
		_, err = m.Known()
		return err != nil
	})
	if !strings.Contains(err.Error(), "which replicas are alive") || idsOf(m.Live()) != "a" {
		t.Errorf("%v; %s", err, idsOf(m.Live()))
	}
}

// lines are what was logged.
type lines chan string

// Write adds one.
func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// A key that is no replica's makes the list of live replicas unreadable. The error and the log
// name the key.
func TestAKeyThatNoReplicaHasWritten(t *testing.T) {
	t.Parallel()
	endpoints := etcdtest.Open(t, 1).Endpoints()
	logged := make(lines, 100)
	m, _, stop := join(t, connect(t, endpoints, func(o *etcd.Options) {
		o.TTL, o.Log = 2*time.Second, slog.New(slog.NewTextHandler(logged, nil))
	}), replicaOf("a"))
	other := raw(t, endpoints)
	_, err := other.Put(t.Context(), prefix+"/replicas/x", "y")
	must(t, err)
	loopback.Until(t, "nobody is known to be alive", func() bool {
		_, err = m.Known()
		return err != nil
	})
	if !strings.Contains(err.Error(), prefix+`/replicas/x in etcd is "y"; expected what a replica with this id says of itself: delete the key`) {
		t.Error(err)
	}
	if line := <-logged; !strings.Contains(line, "level=WARN") || !strings.Contains(line, prefix+"/replicas/x in etcd") {
		t.Error(line)
	}
	_, err = other.Delete(t.Context(), prefix+"/replicas/x")
	must(t, err)
	loopback.Until(t, "they are known again", func() bool {
		_, err = m.Known()
		return err == nil
	})
	stop()
	if len(logged) > 0 {
		t.Errorf("it has logged more: %s", <-logged)
	}
}

// A replica that no other one can reach is alive, and nobody sends anything to it.
func TestAReplicaWithoutAURL(t *testing.T) {
	endpoints := etcdtest.Open(t, 1).Endpoints()
	standby := replicaOf("b")
	standby.URL = ""
	first, _, _ := join(t, connect(t, endpoints), replicaOf("a"))
	b := connect(t, endpoints, func(o *etcd.Options) { o.Name = "b" })
	join(t, b, standby)
	loopback.Until(t, "a knows b", func() bool { return idsOf(first.Live()) == "a b" })
	if others := first.Others(); len(others) != 0 {
		t.Errorf("the others are reached at %q", others)
	}
	if first.Led() {
		t.Error("nobody is the leader, and a says that somebody is")
	}
	campaign(t, b)
	loopback.Until(t, "a knows that there is a leader", first.Led)
	if first.Leader() != "" {
		t.Errorf("the leader is reached at %q", first.Leader())
	}
}

// A process that was cut off from etcd for longer than its lease is a replica again.
func TestAReplicaThatEtcdHasForgotten(t *testing.T) {
	endpoints := etcdtest.Open(t, 1).Endpoints()
	m, _, _ := join(t, connect(t, endpoints), replicaOf("a"))
	root := raw(t, endpoints)
	key := prefix + "/replicas/a"
	before, err := root.Get(t.Context(), key)
	must(t, err)
	_, err = root.Revoke(t.Context(), clientv3.LeaseID(before.Kvs[0].Lease))
	must(t, err)
	loopback.Until(t, "the key is back", func() bool {
		now, err := root.Get(t.Context(), key)
		must(t, err)
		return len(now.Kvs) == 1 && now.Kvs[0].Lease != before.Kvs[0].Lease
	})
	loopback.Until(t, "it knows", func() bool { return idsOf(m.Live()) == "a" })
}

func TestAReplicaWithoutAName(t *testing.T) {
	for _, id := range []string{"", "a/b"} {
		if _, err := connect(t, []string{"http://127.0.0.1:1"}).Join(t.Context(), replicaOf(id)); err == nil || !strings.Contains(err.Error(), "without a slash") {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestASchemaThatALiveReplicaDoesNotKnow(t *testing.T) {
	old, newer := replicaOf("old"), replicaOf("newer")
	newer.Schema = 5
	must(t, etcd.CheckSchema([]etcd.Replica{old, newer}, 4))
	must(t, etcd.CheckSchema([]etcd.Replica{newer}, 5))
	must(t, etcd.CheckSchema(nil, 5))
	if err := etcd.CheckSchema([]etcd.Replica{newer, old}, 5); err == nil || !strings.Contains(err.Error(), "old (version 1.2.3, schema 4)") || strings.Contains(err.Error(), "newer") {
		t.Errorf("error %v", err)
	}
}
