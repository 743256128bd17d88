package store

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/etcd"
	"github.com/nodehitch/nodehitch/e2e/kube/etcdtest"
)

// database is a real etcd, or a connection to it.
type database struct {
	endpoints []string
	prefix    string
}

func newDatabase(t *testing.T) database {
	return database{endpoints: etcdtest.Open(t, 1).Endpoints(), prefix: "/nodehitch"}
}

// testTTL is short, so that a test need not wait for long.
const testTTL = 3 * time.Second

func (d database) connect(t testing.TB) *etcd.Client {
	t.Helper()
	c, err := etcd.Connect(etcd.Options{Endpoints: d.endpoints, Prefix: d.prefix, Name: "test", TTL: testTTL})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (d database) term(t testing.TB) *etcd.Term {
	t.Helper()
	term, err := d.connect(t).Campaign(t.Context(), nil)
	must(t, err)
	t.Cleanup(func() { _ = term.Close() })
	return term
}

func newHistory(t testing.TB, path string) *History {
	t.Helper()
	h, err := OpenHistory(path)
	must(t, err)
	return h
}

func TestSharedIsAnEngine(t *testing.T) {
	d := newDatabase(t)
	key := KeySource{File: filepath.Join(t.TempDir(), "key"), Create: true}
	conformance(t, func(t *testing.T) (engine, *group) {
		d.prefix = "/" + filepath.Base(t.Name())
		s := &Store{}
		must(t, s.openShared(Options{Key: key, Shared: &Shared{Term: d.term(t), History: newHistory(t, filepath.Join(t.TempDir(), "history.json")), Name: "etcd"}}))
		e := s.engine.(*shared)
		t.Cleanup(func() { _ = e.close() })
		return e, &e.updates
	})
}
