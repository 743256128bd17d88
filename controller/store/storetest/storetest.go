// Package storetest opens the stores of tests: with bbolt, or, if NODEHITCH_TEST_ETCD is the URL
// of an etcd, there, each path under a prefix of its own. It is never linked into a binary.
package storetest

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/etcd"
)

// Variable is the URL of the etcd; empty for bbolt.
const Variable = "NODEHITCH_TEST_ETCD"

// T is a test: testing.TB has it, and rapid.T.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// onEtcd reads the variable each time: so go test does not take a result with bbolt from its
// cache for one with etcd.
func onEtcd() bool { return os.Getenv(Variable) != "" }

// Bubble is why a test with synctest is about bbolt alone: its time stands still while the
// network is waited for.
const Bubble = "it is in a bubble of synctest, which reaches no etcd"

// OnlyBbolt skips a test on etcd, with the reason.
func OnlyBbolt(t interface {
	Helper()
	Skip(args ...any)
}, because string) {
	t.Helper()
	if onEtcd() {
		t.Skip("on bbolt only: " + because)
	}
}

// Open opens the store of the path in its options: the file, or what etcd has in its place.
func Open(t T, o store.Options) (*store.Store, error) {
	t.Helper()
	if o.Shared = Shared(t, o.Path); o.Shared != nil {
		o.Path = ""
	}
	return store.Open(o)
}

// Shared is what etcd has in the place of a file, in a term of its own; nil with bbolt. The
// term before must be over, as its store is when it is closed.
func Shared(t T, path string) *store.Shared {
	t.Helper()
	if !onEtcd() {
		return nil
	}
	// A test that a busy machine stops for a while keeps its term.
	client := etcd.New(etcd.Options{Endpoints: []string{os.Getenv(Variable)}, Prefix: prefixOf(path), Name: "test", TTL: time.Minute,
		Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = client.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	term, err := client.Campaign(ctx, nil)
	must(t, err)
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	history, err := store.OpenHistory(path + ".history")
	must(t, err)
	_, wasRestored := replaced.LoadAndDelete(path)
	return &store.Shared{Term: term, History: history, WasRestored: wasRestored, Name: "etcd"}
}

// replaced has the paths whose content was replaced since they were opened.
var replaced sync.Map

func prefixOf(path string) string { return "/tests/" + strings.Trim(path, "/") }

func must(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// Commits differs after a commit of the store of a path. bbolt counts its transactions on the
// first two pages of the file.
func Commits(t T, path string) string {
	t.Helper()
	if onEtcd() {
		at, err := connected(t).Get(context.Background(), prefixOf(path)+"/head")
		must(t, err)
		if len(at.Kvs) != 1 {
			t.Fatalf("%s was not committed", path)
		}
		return fmt.Sprint(at.Kvs[0].ModRevision)
	}
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	meta := make([]byte, 2*os.Getpagesize())
	_, err = io.ReadFull(f, meta)
	must(t, err)
	return string(meta)
}

// record is what etcd has under a key.
type record struct{ Key, Value string }

// Content is all that the store of a path has written, in plain bytes.
func Content(t T, path string) []byte {
	t.Helper()
	if !onEtcd() {
		content, err := os.ReadFile(path)
		must(t, err)
		return content
	}
	var records []record
	for _, part := range []string{"/head", "/v1/"} {
		found, err := connected(t).Get(context.Background(), prefixOf(path)+part, clientv3.WithPrefix())
		must(t, err)
		for _, kv := range found.Kvs {
			records = append(records, record{string(kv.Key), string(kv.Value)})
		}
	}
	if len(records) == 0 {
		t.Fatalf("etcd has nothing of %s", path)
	}
	var b bytes.Buffer
	must(t, gob.NewEncoder(&b).Encode(records))
	return b.Bytes()
}

// Replace puts back what Content has returned. A store that is open sees nothing of it, and is
// to be opened anew as after a restore.
func Replace(t T, path string, content []byte) {
	t.Helper()
	if !onEtcd() {
		must(t, errors.Join(os.WriteFile(path+".new", content, 0o600), os.Rename(path+".new", path)))
		return
	}
	var records []record
	must(t, gob.NewDecoder(bytes.NewReader(content)).Decode(&records))
	_, err := connected(t).Delete(context.Background(), prefixOf(path)+"/v1/", clientv3.WithPrefix())
	must(t, err)
	for _, r := range records {
		_, err := connected(t).Put(context.Background(), r.Key, r.Value)
		must(t, err)
	}
	replaced.Store(path, true)
}

var connection struct {
	once sync.Once
	etcd *clientv3.Client
	err  error
}

// connected is a client of etcd that the tests of this binary share.
func connected(t T) *clientv3.Client {
	t.Helper()
	connection.once.Do(func() {
		connection.etcd, connection.err = clientv3.New(clientv3.Config{Endpoints: []string{os.Getenv(Variable)}, Logger: zap.NewNop()})
	})
	must(t, connection.err)
	return connection.etcd
}
