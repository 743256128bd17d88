package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/store/etcd"
	"github.com/nodehitch/nodehitch/e2e/kube/etcdtest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
)

// saved is a copy of what a member of etcd has on disk.
func saved(t *testing.T, m *etcdtest.Member) (path string) {
	t.Helper()
	m.Kill()
	path = t.TempDir()
	must(t, os.CopyFS(path, os.DirFS(m.DataDir)))
	m.Start()
	return path
}

// putBack gives the member what it had on disk once: cluster, revision and all.
func putBack(t *testing.T, m *etcdtest.Member, path string) {
	t.Helper()
	m.Kill()
	must(t, os.RemoveAll(m.DataDir), os.CopyFS(m.DataDir, os.DirFS(path)))
	m.Start()
}

// waits is a controller that waits while another one is the leader, until it has seen so many
// commits.
func (r replica) waits(t *testing.T, d database, sequence int64) {
	t.Helper()
	h := newHistory(t, r.history())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = d.connect(t).Campaign(ctx, func(p etcd.Position) { h.Seen(p.Cluster, p.Revision, p.Head) })
	}()
	loopback.Until(t, fmt.Sprintf("the waiting controller has seen %d commits", sequence), func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.last.Sequence >= sequence
	})
	cancel()
	<-ended
	must(t, h.flush())
}

func refusesHistory(t *testing.T, r replica, d database) {
	t.Helper()
	s, _, err := r.try(t, d)
	var wrong *HistoryError
	if !errors.As(err, &wrong) {
		t.Errorf("the controller %s has seen more, and the store opens with %v", r.name, err)
		if err == nil {
			shut(t, s)
		}
	}
}

// Otherwise who was revoked would be trusted again, and permits that were used would be good
// once more.
func TestEtcdWasRestoredBehindOurBack(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Open(t, 1)
	d, member := databaseOf(cluster), cluster.Members[0]
	a, b := replicas(t)
	s, _ := a.open(t, d)
	update(t, s, putNode("n1"))
	shut(t, s)
	then := saved(t, member)
	s, _ = a.open(t, d)
	update(t, s, putNode("n2"))
	b.waits(t, d, 3)
	shut(t, s)
	putBack(t, member, then)
	refusesHistory(t, a, d)
	refusesHistory(t, b, d)
	other := d.other(t)
	for range 20 { // what else is in etcd moves its revision on
		_, err := other.Put(t.Context(), "/else", "x")
		must(t, err)
	}
	refusesHistory(t, a, d)
	refusesHistory(t, b, d)
	// An operator who does not come to the new epoch has done nothing.
	restored := func(s *Shared) { s.WasRestored = true }
	s, _, err := a.try(t, d, restored)
	must(t, err)
	shut(t, s)
	refusesHistory(t, a, d)
	s, _, err = a.try(t, d, restored)
	must(t, err)
	_, err = s.BeginEpoch(NewEpoch{From: Origin{RestoredAt: time.Unix(1, 0)}})
	must(t, err)
	shut(t, s)
	for _, r := range []replica{a, b} {
		s, _ = r.open(t, d)
		if diff := cmp.Diff([]string{"n1"}, nodeIDs(t, s)); diff != "" {
			t.Error(diff)
		}
		shut(t, s)
	}
}

// The leader's key and its lease go back too. So only what the last commit has left shows
// that this is not the history that the leader knows.
func TestEtcdIsPutBackUnderTheLeader(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Open(t, 1)
	d, member := databaseOf(cluster), cluster.Members[0]
	d.ttl = 90 * time.Second // it must live on while etcd is put back
	a, _ := replicas(t)
	s, term := a.open(t, d)
	then := saved(t, member)
	update(t, s, putNode("n1"))
	putBack(t, member, then)
	must(t, term.Check())
	if err := s.Update(putNode("n2")); !isProblem(err, api.ProblemUnavailable) {
		t.Fatalf("error %v", err)
	}
	dead(t, s)
	shut(t, s)
	refusesHistory(t, a, d)
}

// Another etcd is not the one that was seen, whatever it holds.
func TestAnotherClusterOfEtcd(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	a, _ := replicas(t)
	s, _ := a.open(t, d)
	shut(t, s)
	refusesHistory(t, a, newDatabase(t))
}

// What cannot be kept on the controller's own disk is not committed.
func TestAHistoryThatCannotBeWritten(t *testing.T) {
	d := newDatabase(t)
	a, _ := replicas(t)
	s, _ := a.open(t, d)
	h := s.engine.(*shared).history
	path := h.path
	h.mu.Lock()
	h.path = "/proc/no/such/file"
	h.mu.Unlock()
	update(t, s, putNode("n1"))
	if err := h.flush(); err == nil {
		t.Fatal("the history was written")
	}
	if err := s.Update(putNode("n2")); !isProblem(err, api.ProblemUnavailable) {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff([]string{"n1"}, nodeIDs(t, s)); diff != "" {
		t.Error(diff)
	}
	h.mu.Lock()
	h.path = path
	h.mu.Unlock()
	update(t, s, putNode("n2"))
	shut(t, s)
	if again := newHistory(t, path); again.last.Sequence != 3 {
		t.Errorf("the disk has commit %d, want 3", again.last.Sequence)
	}
}
