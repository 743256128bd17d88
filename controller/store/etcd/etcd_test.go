package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/nodehitch/nodehitch/controller/store/etcd"
	"github.com/nodehitch/nodehitch/e2e/kube/etcdtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const prefix = "/nodehitch"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func connect(t *testing.T, endpoints []string, change ...func(*etcd.Options)) *etcd.Client {
	t.Helper()
	o := etcd.Options{Endpoints: endpoints, Prefix: prefix, Name: "a controller", TTL: 5 * time.Second}
	for _, each := range change {
		each(&o)
	}
	c := etcd.New(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func campaign(t *testing.T, c *etcd.Client) *etcd.Term {
	t.Helper()
	term, err := c.Campaign(t.Context(), nil)
	must(t, err)
	t.Cleanup(func() { _ = term.Close() })
	return term
}

func raw(t *testing.T, endpoints []string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// changing is so many changes with so many bytes together.
func changing(term *etcd.Term, changes, bytes int) map[string][]byte {
	all := map[string][]byte{}
	for i := range changes {
		key := fmt.Sprintf("nodes/%06d", i)
		all[key] = []byte(strings.Repeat("x", max(0, bytes/changes-len(key)-term.Overhead())))
	}
	return all
}

// What etcd takes is found out without a change of etcd, and is what it takes.
func TestLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags                    []string
		changes, lowest, highest int
	}{
		{nil, 127, 1_500_000, 3 << 19},
		{[]string{"--max-txn-ops=300", "--max-request-bytes=3145728"}, 299, 3_000_000, 3 << 20},
		{[]string{"--max-txn-ops=100000", "--max-request-bytes=33554432"}, 8191, 8_000_000, 8 << 20},
	} {
		t.Run(strings.Join(c.flags, " "), func(t *testing.T) {
			endpoints := etcdtest.Open(t, 1, c.flags...).Endpoints()
			term := campaign(t, connect(t, endpoints))
			changes, bytes := term.Limits()
			if changes != c.changes || bytes < c.lowest || bytes > c.highest {
				t.Errorf("%d changes and %d bytes, want %d and %d to %d", changes, bytes, c.changes, c.lowest, c.highest)
			}
			found, err := raw(t, endpoints).Get(t.Context(), prefix, clientv3.WithPrefix())
			must(t, err)
			if found.Count != 1 || found.Header.Revision != 2 {
				t.Errorf("there are %d keys at revision %d, want the leader's at 2", found.Count, found.Header.Revision)
			}
			_, err = term.Load(t.Context(), nil)
			must(t, err)
			must(t, term.Commit([]byte("head"), changing(term, changes, 0)))
			must(t, term.Commit([]byte("head"), changing(term, 1, bytes)))
			// What is refused for its size is no end of the term.
			err = term.Commit([]byte("head"), changing(term, changes+1, 0))
			if c.changes < 8191 && (err == nil || errors.Is(err, etcd.ErrOutcomeUnknown)) {
				t.Errorf("more changes: %v", err)
			}
			must(t, term.Check())
		})
	}
}

// etcd may take longer for a large commit than for another call.
func TestALargeCommitTakesLonger(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Open(t, 1, "--max-request-bytes=33554432")
	url, answers := late(t, cluster.Members[0].URL)
	term := campaign(t, connect(t, []string{url}, func(o *etcd.Options) { o.TTL = time.Minute }))
	_, err := term.Load(t.Context(), nil)
	must(t, err)
	_, bytes := term.Limits()
	answers.Lock()
	time.AfterFunc(3*time.Second, answers.Unlock) // longer than another call may take
	must(t, term.Commit([]byte("head"), changing(term, 1, bytes)))
	must(t, term.Check())
}

// late is the URL of an etcd that takes what it is sent, but does not answer while answers is
// locked. One that is frozen would take less than a large commit has, and TCP would end the
// connection.
func late(t *testing.T, url string) (_ string, answers *sync.Mutex) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	answers = new(sync.Mutex)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() { defer server.Close(); _, _ = io.Copy(server, client) }()
			go func() { defer client.Close(); _, _ = io.Copy(held{client, answers}, server) }()
		}
	}()
	return "http://" + listener.Addr().String(), answers
}

// held is a connection to which nothing is written while answers is locked.
type held struct {
	net.Conn
	answers *sync.Mutex
}

func (h held) Write(p []byte) (int, error) {
	h.answers.Lock()
	defer h.answers.Unlock()
	return h.Conn.Write(p)
}

// etcd may be nearly full, and others use it too.
func TestLimitsTakeNoSpace(t *testing.T) {
	endpoints := etcdtest.Open(t, 1, "--quota-backend-bytes=1048576").Endpoints()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // enough to raise an alarm
	defer cancel()
	term, err := connect(t, endpoints).Campaign(ctx, nil)
	if err == nil {
		must(t, term.Close())
	}
	alarms, listErr := raw(t, endpoints).AlarmList(t.Context())
	must(t, listErr)
	if len(alarms.Alarms) > 0 || err != nil {
		t.Errorf("etcd has raised %v, and the campaign ended with %v", alarms.Alarms, err)
	}
}

// A load has many pages, in which nothing is missing or twice.
func TestLoadOfManyRecords(t *testing.T) {
	endpoints := etcdtest.Open(t, 1).Endpoints()
	term := campaign(t, connect(t, endpoints))
	if head, err := term.Load(t.Context(), func(key string, _ []byte) error { t.Errorf("%s is there", key); return nil }); head != nil || err != nil {
		t.Errorf("the first head is %q, %v", head, err)
	}
	const commits, each = 13, 100
	for i := range commits {
		all := map[string][]byte{}
		for j := range each {
			all[fmt.Sprintf("nodes/%06d", i*each+j)] = []byte("x")
		}
		must(t, term.Commit(fmt.Appendf(nil, "head %d", i), all))
	}
	must(t, term.Close())
	next, last := campaign(t, connect(t, endpoints)), ""
	n := 0
	head, err := next.Load(t.Context(), func(key string, _ []byte) error {
		if key <= last {
			t.Errorf("%s comes after %s", key, last)
		}
		last = key
		n++
		return nil
	})
	must(t, err)
	if n != commits*each || string(head) != "head 12" {
		t.Errorf("%d records and %q", n, head)
	}
}

// The next leader does not wait for the lease of one that has ended its term.
func TestATermThatIsClosed(t *testing.T) {
	endpoints := etcdtest.Open(t, 1).Endpoints()
	first := campaign(t, connect(t, endpoints, func(o *etcd.Options) { o.TTL = time.Hour }))
	next := make(chan error)
	waiting := make(chan struct{}, 1000)
	client := connect(t, endpoints)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // the lease is of an hour
	defer cancel()
	go func() {
		term, err := client.Campaign(ctx, func(etcd.Position) { waiting <- struct{}{} })
		if err == nil {
			err = term.Close()
		}
		next <- err
	}()
	<-waiting
	<-waiting // it has seen a leader
	must(t, first.Close())
	must(t, <-next)
	err := first.Commit([]byte("head"), nil)
	var problem *api.Problem
	if !errors.As(err, &problem) || !errors.Is(err, etcd.ErrClosed) {
		t.Errorf("a commit after Close: %v", err)
	}
	if _, open := <-first.Over(); open || !errors.Is(first.Why(), etcd.ErrClosed) {
		t.Errorf("it is over because %v", first.Why())
	}
}

// Waiting does not mend a wrong password.
func TestEtcdRefusesTheController(t *testing.T) {
	t.Parallel()
	endpoints := etcdtest.Open(t, 1).Endpoints()
	root := raw(t, endpoints)
	for _, do := range []func() error{
		func() error { _, err := root.UserAdd(t.Context(), "root", "secret"); return err },
		func() error { _, err := root.UserGrantRole(t.Context(), "root", "root"); return err },
		func() error { _, err := root.UserAdd(t.Context(), "nodehitch", "right"); return err },
		func() error { _, err := root.RoleAdd(t.Context(), "nodehitch"); return err },
		func() error {
			_, err := root.RoleGrantPermission(t.Context(), "nodehitch", prefix+"/", prefix+"0", clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := root.UserGrantRole(t.Context(), "nodehitch", "nodehitch"); return err },
		func() error { _, err := root.AuthEnable(t.Context()); return err },
	} {
		must(t, do())
	}
	as := func(password, under string) *etcd.Client {
		return connect(t, endpoints, func(o *etcd.Options) { o.Username, o.Password, o.Prefix = "nodehitch", password, under })
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for what, c := range map[string]*etcd.Client{"a wrong password": as("wrong", prefix), "another prefix": as("right", "/else")} {
		_, err := c.Campaign(ctx, nil)
		if err == nil || ctx.Err() != nil || strings.Contains(err.Error(), "wrong") {
			t.Errorf("%s: %v", what, err)
		} else {
			t.Log(err)
		}
	}
	// It needs nothing but its prefix.
	term := campaign(t, as("right", prefix))
	_, err := term.Load(ctx, nil)
	must(t, err)
	must(t, term.Commit([]byte("head"), map[string][]byte{"nodes/n1": []byte("x")}))
}

func TestAnEtcdThatDoesNotAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := connect(t, []string{"http://127.0.0.1:1"})
	cancel()
	if _, err := c.Campaign(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
