package replicas

import (
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// TestFreeze stops processes for longer than they may be silent and lets them go on: they
// learn of nothing.
func TestFreeze(t *testing.T) {
	longOnly(t, "freeze")
	w := open(t, 3, 3)
	w.phase(t, "freeze the leader", "a leader that goes on after its lease has ended neither writes nor answers what it was asked before", func(c *results.Case) {
		w.replaced(func(frozen *controller) func() {
			q := w.queue(frozen)
			frozen.signal(syscall.SIGSTOP)
			q.send()
			return func() {
				w.must(w.write(q.read, "http://after"))
				frozen.signal(syscall.SIGCONT)
				q.judge(c)
			}
		})
	})
	w.phase(t, "freeze the leader while nodes are revoked", "the polls that it holds are not answered as before, though their time is over when it goes on", func(*results.Case) {
		w.replaced(func(frozen *controller) func() {
			frozen.signal(syscall.SIGSTOP)
			return func() {
				w.outage()
				frozen.signal(syscall.SIGCONT)
			}
		})
	})
	w.phase(t, "freeze a follower", "it goes on and knows what it missed; meanwhile its clients go on to the next controller", func(*results.Case) {
		c := w.follower()
		c.signal(syscall.SIGSTOP)
		w.outage() // all polls that it holds are due
		w.served()
		c.signal(syscall.SIGCONT)
	})
	w.phase(t, "freeze etcd's leader", "the other two members elect another", func(*results.Case) {
		m := w.etcd.Members[w.etcdLeader()]
		m.Freeze()
		w.outage()
		w.served()
		m.Thaw()
	})
	w.phase(t, "freeze a majority of etcd", "nothing is acknowledged meanwhile", func(*results.Case) {
		leader := w.etcdLeader()
		frozen := []int{leader, (leader + 1) % 3}
		for _, i := range frozen {
			w.etcd.Members[i].Freeze()
		}
		w.outage()
		for _, i := range frozen {
			w.etcd.Members[i].Thaw()
		}
	})
}

// queue are requests that a frozen controller finds when it goes on, over connections that it
// had before.
type queue struct {
	w    *installation
	apis []*client.Controller
	// read is the instance that the first half reads; each of the others writes one.
	read string

	sent sync.WaitGroup
	mu   sync.Mutex
	// stale answers showed what the instance was before; acknowledged instances were written.
	stale, answered int
	acknowledged    []string
}

const queued = 24

func (w *installation) queue(at *controller) *queue {
	w.t.Helper()
	q := &queue{w: w, read: id(8, w.phases*100)}
	w.must(w.write(q.read, "http://before"))
	for n := range queued {
		one, err := client.New(client.Options{BaseURL: at.url, RootPEM: []byte(w.trust.RootCertificate), Pin: w.trust.Pin, Token: w.token,
			Timeout: time.Minute, Dial: w.clients.dialFrom(w.clients.machine(200 + n))})
		w.must(err)
		w.t.Cleanup(one.CloseIdle)
		w.must(client.Done(one.ListTokens(w.t.Context(), nil)))
		q.apis = append(q.apis, one)
	}
	return q
}

// write writes an instance at any controller.
func (w *installation) write(instance, value string) error {
	return w.caller(95).until(func(a *client.Controller) error {
		return client.Done(a.PutInstance(w.t.Context(), instance, nil, spec(w.t, loopback.ClusterParams(value), nil)))
	})
}

func (q *queue) send() {
	for n, one := range q.apis {
		if n < queued/2 {
			q.sent.Go(func() {
				i, err := client.Read[api.Instance](one.GetInstance(q.w.t.Context(), q.read, nil))
				if err != nil {
					return
				}
				value, _ := proxyOf(i)
				q.mu.Lock()
				defer q.mu.Unlock()
				q.answered++
				if value == "http://before" {
					q.stale++
				}
			})
			continue
		}
		instance, text := id(8, q.w.phases*100+n), spec(q.w.t, loopback.ClusterParams("http://queued"), nil)
		q.sent.Go(func() {
			if client.Done(one.PutInstance(q.w.t.Context(), instance, nil, text)) != nil {
				return
			}
			q.mu.Lock()
			defer q.mu.Unlock()
			q.answered++
			q.acknowledged = append(q.acknowledged, instance)
		})
	}
}

// judge waits for the end of all requests.
func (q *queue) judge(c *results.Case) {
	q.w.t.Helper()
	q.sent.Wait()
	lost := 0
	for _, instance := range q.acknowledged {
		err := q.w.caller(96).until(func(a *client.Controller) error { return client.Done(a.GetInstance(q.w.t.Context(), instance, nil)) })
		if client.Status(err) == http.StatusNotFound {
			lost++
		} else {
			q.w.must(err)
		}
	}
	c.Figure("asked while it was frozen", "%d requests, answered %d, with what was before %d, acknowledged and lost %d", queued, q.answered, q.stale, lost)
	c.Unauthorised(int64(q.stale))
	c.Lost(int64(lost))
}
