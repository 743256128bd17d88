package store

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/nodehitch/nodehitch/e2e/kube/etcdtest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
)

// server is a controller that becomes the leader again and again.
type server struct {
	replica
	d       database
	proxy   *etcdtest.Proxy
	current atomic.Pointer[Store]
	terms   *atomic.Int64
}

func (s *server) run(t *testing.T, ctx context.Context) {
	client := s.d.through(s.proxy).connect(t)
	for ctx.Err() == nil {
		term, err := client.Campaign(ctx, nil)
		if err != nil {
			return
		}
		// It remembers nothing: here the fence alone has to protect the records.
		h := &History{path: s.history()}
		o := s.options()
		o.Path, o.Shared = "", &Shared{Term: term, History: h, Name: "etcd"}
		opened, err := Open(o)
		if err != nil {
			if ctx.Err() == nil && term.Why() == nil {
				t.Errorf("a term that goes on cannot be opened: %v", err)
			}
			t.Logf("%s: %v", s.name, err)
			continue
		}
		s.terms.Add(1)
		s.current.Store(opened)
		select {
		case <-opened.Over():
		case <-ctx.Done():
		}
		s.current.Store(nil)
		_ = opened.Close()
	}
}

// unknown is the answer of an append that may be done or not.
const unknown = "unknown"

// call is an operation on a list of numbers: append one, or read all for 0.
type call struct{ number int }

// Each answer is the whole list, so that few orders have to be tried.
var listModel = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		list, seen := state.(string), output.(string)
		if in := input.(call); in.number != 0 {
			list = fmt.Sprintf("%s %d", list, in.number)
		}
		return seen == list || seen == unknown, list
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprint(input, output) },
}

// calls are what clients have done.
type calls struct {
	mu   sync.Mutex
	list []porcupine.Operation
	ok   int
	open int
}

func (c *calls) add(o porcupine.Operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, o)
	if o.Return == math.MaxInt64 {
		c.open++
	} else {
		c.ok++
	}
}

// do does one operation at a server and notes what is known of it.
func (c *calls) do(s *Store, client, number int, began time.Time) {
	o := porcupine.Operation{ClientId: client, Input: call{number}, Call: int64(time.Since(began))}
	var err error
	if number == 0 {
		err = s.View(func(tx *Tx) error {
			n, _, err := tx.Nodes().Get("list")
			o.Output = n.Name
			return err
		})
		if err != nil {
			return // it has answered nothing
		}
	} else {
		ran := false
		err = s.Update(func(tx *Tx) error {
			ran = true
			n, _, err := tx.Nodes().Get("list")
			if err != nil {
				return err
			}
			n = Node{ID: "list", Name: fmt.Sprintf("%s %d", n.Name, number)}
			o.Output = n.Name
			return tx.Nodes().Put("list", n)
		})
		if err != nil && !ran {
			return
		}
	}
	o.Return = int64(time.Since(began))
	if err != nil {
		o.Return, o.Output = math.MaxInt64, unknown // it may be done at any time from now on, or never
	}
	c.add(o)
}

// Two controllers on an etcd with three members, while the network and etcd fail: what
// clients see is what one list would show them.
func TestSharedIsLinearizable(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Open(t, 3)
	d := databaseOf(cluster)
	a, b := replicas(t)
	var terms atomic.Int64
	servers := []*server{
		{replica: a, d: d, proxy: etcdtest.NewProxy(t, cluster.Members[0].URL), terms: &terms},
		{replica: b, d: d, proxy: etcdtest.NewProxy(t, cluster.Members[1].URL), terms: &terms},
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, s := range servers {
		running.Go(func() { s.run(t, ctx) })
	}
	began, done := time.Now(), &calls{}
	var numbers atomic.Int64
	var pause sync.RWMutex
	for client := range 6 {
		running.Go(func() {
			pace := time.NewTicker(20 * time.Millisecond)
			defer pace.Stop()
			for ctx.Err() == nil {
				<-pace.C
				s := servers[rand.IntN(len(servers))].current.Load()
				if s == nil {
					continue
				}
				number := 0
				if client%2 == 0 {
					number = int(numbers.Add(1))
				}
				pause.RLock()
				done.do(s, client, number, began)
				pause.RUnlock()
			}
		})
	}
	faults := 8
	if testing.Short() {
		faults = 4
	}
	for i := range faults {
		harm(t, cluster, servers, &pause, i)
	}
	cancel()
	running.Wait()
	t.Logf("terms %d, operations %d, unknown outcomes %d", terms.Load(), done.ok, done.open)
	if terms.Load() < 2 || done.ok < 100 {
		t.Errorf("too little has happened: terms %d, operations %d", terms.Load(), done.ok)
	}
	check(t, d, a, done.list)
}

// harm does one thing to what is there, until the leader has noticed it, and then makes it
// whole again.
func harm(t *testing.T, cluster *etcdtest.Cluster, servers []*server, clients *sync.RWMutex, i int) {
	s, opened := theLeader(t, servers)
	switch i % 4 {
	case 0: // what it has sent comes when another one is the leader, and is the last one's to come
		s.proxy.Delay()
		<-opened.Over()
		next, opened := theLeader(t, servers)
		if next == s {
			t.Fatal("a controller that is cut off became the leader")
		}
		known := commitsOf(opened)
		loopback.Until(t, "clients have written to the next leader", func() bool { return commitsOf(opened) > known+3 })
		clients.Lock()
		defer clients.Unlock()
		before := applied(t, cluster.Members[0])
		s.proxy.Heal()
		loopback.Until(t, "etcd has got the late commit", func() bool { return applied(t, cluster.Members[0]) > before })
		next.proxy.Lose(etcdtest.ToEtcd, etcdtest.ToClient)
		<-opened.Over()
		next.proxy.Heal()
	case 1:
		s.proxy.Lose(etcdtest.ToClient)
		<-opened.Over()
		s.proxy.Heal()
	case 2: // it may notice nothing
		m := cluster.Members[rand.IntN(len(cluster.Members))]
		m.Freeze()
		_ = opened.Update(putNode("while a member is frozen"))
		m.Thaw()
	case 3:
		m := cluster.Members[rand.IntN(len(cluster.Members))]
		m.Kill()
		m.Start()
	}
}

func commitsOf(s *Store) int64 { return s.engine.(*shared).committed.Load().sequence }

// theLeader waits until there is one.
func theLeader(t *testing.T, servers []*server) (found *server, opened *Store) {
	loopback.Until(t, "there is a leader", func() bool {
		for _, s := range servers {
			if opened = s.current.Load(); opened == nil {
				continue
			}
			select {
			case <-opened.Over(): // it is about to notice
			default:
				found = s
				return true
			}
		}
		return false
	})
	return found, opened
}

// check adds what a last controller reads and looks for an order of all that explains it.
func check(t *testing.T, d database, r replica, list []porcupine.Operation) {
	t.Helper()
	s, _ := replica{r.place, "last"}.open(t, d)
	var final string
	view(t, s, func(tx *Tx) error {
		n, _, err := tx.Nodes().Get("list")
		final = n.Name
		return err
	})
	var last int64
	appended := strings.Fields(final)
	list = slices.DeleteFunc(list, func(o porcupine.Operation) bool {
		lost := o.Input.(call).number != 0 && !slices.Contains(appended, fmt.Sprint(o.Input.(call).number))
		if o.Return == math.MaxInt64 {
			return lost // it was never done
		}
		if last = max(last, o.Return); lost {
			t.Errorf("%d was acknowledged and is lost", o.Input.(call).number)
		}
		return false
	})
	list = append(list, porcupine.Operation{ClientId: 99, Input: call{}, Output: final, Call: last + 1, Return: last + 2})
	if result := porcupine.CheckOperationsTimeout(listModel, list, time.Minute); result != porcupine.Ok {
		t.Errorf("%d operations are not linearizable: %s", len(list), result)
	}
}
