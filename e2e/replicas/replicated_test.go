package replicas

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/nodehitch/nodehitch/agent/config"
	"github.com/nodehitch/nodehitch/e2e/crowd"
	"github.com/nodehitch/nodehitch/e2e/kube/etcdtest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// installation is all of it.
type installation struct {
	t *testing.T
	// standbys: a controller that is not the leader does not serve.
	standbys bool
	// members are where etcd's run, clients is where callers of the API and single nodes are,
	// agents where the crowd is.
	members         []*host
	clients, agents *host
	controllers     []*controller
	etcd            *etcdtest.Cluster // nil with bbolt
	db              *clientv3.Client
	filesystem      string

	trust *api.Trust
	token string
	// phases counts what was done to it: each has instances of its own.
	phases int

	// crowd are the agents, size is how many, and order what they were told.
	crowd *crowd.Crowd
	size  int
	order crowd.Order
	// seen is what the crowd has told since the phase began, and who is connected now.
	seen crowd.Tally
}

const (
	prefix = "/nodehitch"
	// pollSeconds is half the default, for every case waits until all agents have polled again. A
	// poll that is held as long could outlive a revocation.
	pollSeconds = 15
	perInstance = 50
)

// agentsVariable replaces how many agents there are.
const agentsVariable = "NODEHITCH_AGENTS"

func agentsOf(t testing.TB) int {
	t.Helper()
	if named := os.Getenv(agentsVariable); named != "" {
		n, err := strconv.Atoi(named)
		if err != nil || n < 1 {
			t.Fatalf("%s is %q, expected a number from 1", agentsVariable, named)
		}
		return n
	}
	if results.Full() && !testing.Short() {
		return 2000
	}
	return 50
}

// longOnly skips all cases of a test if the run has no long ones.
func longOnly(t *testing.T, about string) {
	t.Helper()
	if !results.Full() {
		results.Begin(t, "replicas", about, "all cases of "+t.Name())
		results.LongOnly(t)
	}
}

// open starts etcd with so many members, or none for bbolt, controllers and agents, and waits
// until the agents are connected. Flags are further ones of etcd.
func open(t *testing.T, members, controllers int, flags ...string) *installation {
	t.Helper()
	return (&installation{t: t}).open(members, controllers, flags)
}

// openStandbys is open with controllers that serve only while they are the leader.
func openStandbys(t *testing.T, members, controllers int) *installation {
	t.Helper()
	return (&installation{t: t, standbys: true}).open(members, controllers, nil)
}

func (w *installation) open(members, controllers int, flags []string) *installation {
	t := w.t
	t.Helper()
	n := newNetwork(t)
	w.clients, w.agents = n.host("clients", 200, 22), n.host("agents", 100, 21)
	dir, filesystem := loopback.DiskDir(t)
	w.filesystem = filesystem
	settings := map[string]string{"pollSeconds": fmt.Sprint(pollSeconds)}
	if members > 0 {
		w.openEtcd(n, dir, members, flags)
		settings["store"] = fmt.Sprintf("{etcd: {endpoints: [%s], prefix: %s}}", strings.Join(w.etcd.Endpoints(), ", "), prefix)
	}
	var hosts []*host
	var names, urls []string
	for i := range controllers {
		h := n.host(fmt.Sprintf("c%d", i), byte(21+i), 0)
		h.knows(w.clients)
		h.knows(w.agents)
		hosts = append(hosts, h)
		names = append(names, h.address.String())
		urls = append(urls, "https://"+net.JoinHostPort(h.address.String(), controllerPort))
	}
	settings["names"], settings["advertiseUrls"] = "["+strings.Join(names, ", ")+"]", "["+strings.Join(urls, ", ")+"]"
	for _, h := range hosts {
		own := map[string]string{}
		for name, value := range settings {
			own[name] = value
		}
		switch peers := net.JoinHostPort(h.address.String(), "8444"); {
		case w.standbys:
			own["replica"] = fmt.Sprintf("{id: %s}", h.name)
		case members > 0:
			own["replica"] = fmt.Sprintf("{id: %s, url: 'https://%s', listen: '%s'}", h.name, peers, peers)
		}
		w.controllers = append(w.controllers, newController(t, h, dir, own))
	}
	w.firstStart()
	w.startCrowd()
	return w
}

func (w *installation) openEtcd(n *network, dir string, members int, flags []string) {
	w.t.Helper()
	var places []etcdtest.Place
	for i := range members {
		h := n.host(fmt.Sprintf("m%d", i), byte(11+i), 0)
		w.members = append(w.members, h)
		places = append(places, etcdtest.Place{Host: h.address.String(), Wrap: h.inside(), Dial: w.clients.dial})
	}
	w.etcd = etcdtest.OpenAt(w.t, dir, places, append(flags, "--log-level=error")...)
	w.db = w.connect(w.etcd.Endpoints()...)
}

// connect is a client of etcd that the test itself uses, to look and to break.
func (w *installation) connect(endpoints ...string) *clientv3.Client {
	w.t.Helper()
	db, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop(), DialTimeout: 2 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return w.clients.dial(ctx, "tcp", address)
		})}})
	w.must(err)
	w.t.Cleanup(func() { _ = db.Close() })
	return db
}

func (w *installation) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// firstStart gives all controllers the same seal key, as the operator does, starts one, makes a
// token there, and then starts the others.
func (w *installation) firstStart() {
	w.t.Helper()
	for _, c := range w.controllers {
		w.must(os.WriteFile(filepath.Join(c.data(), "seal.key"), bytes.Repeat([]byte("k"), 32), 0o600))
	}
	first := w.controllers[0]
	first.start()
	root, err := client.New(client.Options{UnixSocket: first.socket(), Timeout: 5 * time.Second})
	w.must(err)
	loopback.Until(w.t, "the first controller answers", func() bool { return client.Done(root.GetReadyz(w.t.Context())) == nil })
	w.trust, err = client.Read[api.Trust](root.GetTrust(w.t.Context()))
	w.must(err)
	token, err := client.Read[api.NewToken](root.CreateToken(w.t.Context(), api.TokenRequest{Name: "clients", Scope: api.ScopeOperator}))
	w.must(err)
	w.token = token.Secret
	for _, c := range w.controllers[1:] {
		c.start()
	}
	for _, c := range w.controllers {
		loopback.Until(w.t, c.name+" tells systemd that it has started", func() bool { return c.started() > 0 })
	}
	w.everyoneServes()
}

// everyoneServes waits until all controllers serve that ever do at the same time.
func (w *installation) everyoneServes() {
	w.t.Helper()
	most := len(w.controllers)
	if w.standbys {
		most = 1
	}
	loopback.Until(w.t, "controllers serve", func() bool { return len(w.answers()) == most })
}

// copyAll copies a file or a folder, if it is there.
func copyAll(from, to string) error {
	info, err := os.Stat(from)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, info.Mode())
	}
	entries, err := os.ReadDir(from)
	if err == nil {
		err = os.Mkdir(to, info.Mode())
	}
	for _, each := range entries {
		err = errors.Join(err, copyAll(filepath.Join(from, each.Name()), filepath.Join(to, each.Name())))
	}
	return err
}

// startCrowd enrolls the agents, each third of them at a controller of its own, and waits until
// all are connected.
func (w *installation) startCrowd() {
	w.t.Helper()
	if w.size == 0 {
		w.size = agentsOf(w.t)
	}
	c := w.caller(0)
	var members []crowd.Member
	for from := 0; from < w.size; from += perInstance {
		instance, n := id(0, from), min(perInstance, w.size-from)
		w.must(c.until(func(api *client.Controller) error {
			return client.Done(api.PutInstance(w.t.Context(), instance, nil, spec(w.t, loopback.ClusterParams(""), loopback.Workers(id, from, n))))
		}))
		token := w.joinToken(c, instance)
		for i := range n {
			urls := slices.Concat(w.trust.Urls[(from+i)%len(w.trust.Urls):], w.trust.Urls[:(from+i)%len(w.trust.Urls)])
			members = append(members, crowd.Member{ID: id(1, from+i), Token: token, URLs: urls})
		}
	}
	dir, err := os.MkdirTemp("/dev/shm", "nodehitch-replicas-")
	if err != nil {
		dir = w.t.TempDir()
	}
	w.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w.order = crowd.Order{Dir: dir, Members: members, Network: w.agents.many,
		Config: config.Config{RootCertificate: w.trust.RootCertificate, Pin: w.trust.Pin}}
	w.connectCrowd(w.t)
	if w.seen.Enrolled < w.size {
		w.t.Fatalf("%d agents are connected and %d enrollments were seen", w.size, w.seen.Enrolled)
	}
}

// connectCrowd starts the agents, which begin with the first of their URLs and end with the test,
// and waits until all are connected.
func (w *installation) connectCrowd(t *testing.T) {
	w.t.Helper()
	began := time.Now()
	w.crowd = crowd.Start(t, w.order, w.agents.inside()...)
	w.await("every agent is connected", 10*time.Minute, func(now crowd.Tally) bool {
		return now.Connected == w.size && now.Oldest < time.Since(began)
	})
}

// await asks the crowd for its tally until it is as wanted.
func (w *installation) await(what string, limit time.Duration, ok func(now crowd.Tally) bool) {
	w.t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		now := w.tally()
		if ok(now) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			w.t.Fatalf("after %v still not: %s; %d of %d agents are connected; errors in their logs:\n%s", limit, what, now.Connected, w.size, w.seen.FirstErrors())
		}
	}
}

func (w *installation) tally() crowd.Tally {
	w.t.Helper()
	now, err := w.crowd.Tally()
	w.must(err)
	w.seen.Connected, w.seen.Open = 0, 0
	w.seen.Add(now)
	return now
}

func (w *installation) joinToken(c *caller, instance string) (secret string) {
	w.t.Helper()
	w.must(c.until(func(a *client.Controller) error {
		token, err := client.Read[api.JoinToken](a.GetJoinToken(w.t.Context(), instance))
		if err == nil {
			secret = token.Token
		}
		return err
	}))
	return secret
}

// leader waits until there is one, and returns it.
func (w *installation) leader() *controller {
	w.t.Helper()
	if w.db == nil {
		return w.controllers[0]
	}
	var found *controller
	loopback.Until(w.t, "there is a leader", func() bool {
		found = w.named(w.holder())
		return found != nil
	})
	return found
}

// follower is a controller that is not the leader.
func (w *installation) follower() *controller {
	w.t.Helper()
	leader := w.leader()
	return w.controllers[slices.IndexFunc(w.controllers, func(c *controller) bool { return c != leader })]
}

func (w *installation) named(name string) *controller {
	if i := slices.IndexFunc(w.controllers, func(c *controller) bool { return c.name == name }); i >= 0 {
		return w.controllers[i]
	}
	return nil
}

// holder is what etcd says that the leader is; empty if it says nothing.
func (w *installation) holder() string {
	name, _ := w.term()
	return name
}

// term is the leader and the number of its term, as etcd says.
func (w *installation) term() (name string, number int64) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
	defer cancel()
	answer, err := w.db.Get(ctx, prefix+"/writer")
	if err != nil || len(answer.Kvs) == 0 {
		return "", 0
	}
	return string(answer.Kvs[0].Value), answer.Kvs[0].CreateRevision
}

// etcdLeader is the number of etcd's leader among the members.
func (w *installation) etcdLeader() int {
	w.t.Helper()
	found := -1
	loopback.Until(w.t, "etcd has a leader", func() bool {
		for i, m := range w.etcd.Members {
			ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
			status, err := w.db.Status(ctx, m.URL)
			cancel()
			if err == nil && status.Leader == status.Header.MemberId {
				found = i
			}
		}
		return found >= 0
	})
	return found
}

// hostsBut are those of controllers and etcd but for some.
func (w *installation) hostsBut(but ...*host) (rest []*host) {
	all := append(slices.Clone(w.members), w.clients, w.agents)
	for _, c := range w.controllers {
		all = append(all, c.host)
	}
	return slices.DeleteFunc(all, func(h *host) bool { return slices.Contains(but, h) })
}

// answers are the names of the controllers that serve the API now.
func (w *installation) answers() (names []string) {
	c := w.caller(1)
	for i, one := range c.apis {
		ctx, cancel := context.WithTimeout(w.t.Context(), 3*time.Second)
		if client.Done(one.ListTokens(ctx, nil)) == nil {
			names = append(names, w.controllers[i].name)
		}
		cancel()
		one.CloseIdle()
	}
	return names
}

// id is the n-th UUID of a kind.
func id(kind, n int) string { return fmt.Sprintf("4e711ca0-0000-4000-8%03d-%012d", kind, n) }

// describe notes what the figures of a case depend on.
func (w *installation) describe(c *results.Case) {
	store := "bbolt"
	if w.etcd != nil {
		store = fmt.Sprintf("etcd with %d members on one disk", len(w.etcd.Members))
	}
	c.Figure("store", "%s (%s)", store, cmp.Or(w.filesystem, "?"))
	if w.standbys {
		c.Figure("who serves", "the leader")
	}
	c.Figure("agents", "%d, controllers %d, clients %d", w.size, len(w.controllers), registerClients+permitClients)
}

// outage is how long a fault lasts that does not end by itself: longer than the leader's lease.
func (w *installation) outage() {
	w.t.Helper()
	sleep(w.t.Context(), 20*time.Second)
}

// served wants a change to be acknowledged while the fault lasts.
func (w *installation) served() {
	w.t.Helper()
	if err := w.write(id(9, w.phases), "http://served"); err != nil {
		w.t.Errorf("nobody acknowledges changes: %v", err)
	}
}
