package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/nodehitch/nodehitch/controller/store/etcd"
	"github.com/nodehitch/nodehitch/e2e/kube/etcdtest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/process"
	"github.com/nodehitch/nodehitch/shared/api"
)

// dead says that the store answers nothing, for good.
func dead(t *testing.T, s *Store) {
	t.Helper()
	<-s.Over()
	ran := func(*Tx) error { t.Error("it ran"); return nil }
	for what, err := range map[string]error{"a view": s.View(ran), "an update": s.Update(ran)} {
		if !isProblem(err, api.ProblemUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Whether etcd has it or not: the caller hears that it is not known, and the term is over.
func TestTheAnswerToACommitIsLost(t *testing.T) {
	t.Parallel()
	for lost, want := range map[etcdtest.Direction][]string{
		etcdtest.ToClient: {"n1", "n2"},
		etcdtest.ToEtcd:   {"n1"},
	} {
		t.Run(string(lost), func(t *testing.T) {
			cluster := etcdtest.Open(t, 1)
			d, proxy := databaseOf(cluster), etcdtest.NewProxy(t, cluster.Members[0].URL)
			d.ttl = time.Minute // the lease is not what ends the term
			a, _ := replicas(t)
			s, _ := a.open(t, d.through(proxy))
			update(t, s, putNode("n1"))
			proxy.Lose(lost)
			told := false
			err := s.Update(func(tx *Tx) error {
				tx.OnCommit(func() { told = true })
				return putNode("n2")(tx)
			})
			if !isProblem(err, api.ProblemUnavailable) || !errors.Is(err, etcd.ErrOutcomeUnknown) || told {
				t.Fatalf("error %v, told of a commit: %v", err, told)
			}
			select {
			case <-s.Over():
			default:
				t.Fatal("the term goes on")
			}
			dead(t, s)
			proxy.Heal()
			dead(t, s)
			shut(t, s)
			s, _ = a.open(t, d)
			if diff := cmp.Diff(want, nodeIDs(t, s)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// applied is how many proposals etcd has applied.
func applied(t *testing.T, member *etcdtest.Member) int {
	t.Helper()
	answer, err := http.Get(member.URL + "/metrics") //nolint:noctx // on this machine
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	found := regexp.MustCompile(`(?m)^etcd_server_proposals_applied_total (\S+)$`).FindSubmatch(text)
	if found == nil {
		t.Fatal("etcd does not say how many proposals it has applied")
	}
	n, err := strconv.ParseFloat(string(found[1]), 64)
	must(t, err)
	return int(n)
}

// A commit that reaches etcd when its term is over changes nothing.
func TestACommitComesLate(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Open(t, 1)
	d, proxy := databaseOf(cluster), etcdtest.NewProxy(t, cluster.Members[0].URL)
	a, b := replicas(t)
	s, _ := a.open(t, d.through(proxy))
	update(t, s, putNode("n1"))
	proxy.Delay()
	if err := s.Update(putNode("late")); !errors.Is(err, etcd.ErrOutcomeUnknown) {
		t.Fatalf("error %v", err)
	}
	next, _ := b.open(t, d)
	// Nothing was committed in this term when the other commit comes.
	before := applied(t, cluster.Members[0])
	proxy.Heal()
	loopback.Until(t, "etcd has got the late commit", func() bool { return applied(t, cluster.Members[0]) > before })
	update(t, next, putNode("n2"))
	if diff := cmp.Diff([]string{"n1", "n2"}, nodeIDs(t, next)); diff != "" {
		t.Error(diff)
	}
	shut(t, next)
	again, _ := b.open(t, d)
	if diff := cmp.Diff([]string{"n1", "n2"}, nodeIDs(t, again)); diff != "" {
		t.Error(diff)
	}
}

// A leader that etcd does not answer is silent before another one can be the leader.
func TestACutOffLeaderAnswersNothing(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Open(t, 1)
	d, proxy := databaseOf(cluster), etcdtest.NewProxy(t, cluster.Members[0].URL)
	a, _ := replicas(t)
	s, _ := a.open(t, d.through(proxy))
	update(t, s, putNode("n1"))
	proxy.Lose(etcdtest.ToEtcd, etcdtest.ToClient)
	other, answered := d.other(t), 0
	loopback.Until(t, "the lease of the leader has ended", func() bool {
		leader, err := other.Get(t.Context(), d.prefix+"/writer")
		must(t, err)
		if s.View(func(*Tx) error { return nil }) == nil {
			answered++
			if leader.Count == 0 {
				t.Error("it answers, and another one may be the leader")
			}
		}
		return leader.Count == 0
	})
	if answered == 0 {
		t.Error("it never answered")
	}
	dead(t, s)
	proxy.Heal()
	dead(t, s)
}

// The lease is taken from a running leader: as if its time were over.
func TestALeaseThatEnds(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	a, _ := replicas(t)
	s, term := a.open(t, d)
	update(t, s, putNode("n1"))
	other := d.other(t)
	err := s.Update(func(tx *Tx) error {
		leader, err := other.Get(t.Context(), d.prefix+"/writer")
		must(t, err)
		_, err = other.Revoke(t.Context(), clientv3.LeaseID(leader.Kvs[0].Lease))
		must(t, err)
		return putNode("n2")(tx)
	})
	if !isProblem(err, api.ProblemUnavailable) || !errors.Is(term.Why(), etcd.ErrLost) {
		t.Fatalf("error %v, the term is over because %v", err, term.Why())
	}
	dead(t, s)
	shut(t, s)
	s, _ = a.open(t, d)
	if diff := cmp.Diff([]string{"n1"}, nodeIDs(t, s)); diff != "" {
		t.Error(diff)
	}
}

// child is a controller in a process of its own, which does what it reads.
type child struct {
	*process.Process
	in  io.Writer
	out *bufio.Reader
}

const childVariable = "STORE_TEST_REPLICA"

func startChild(t *testing.T, d database, r replica) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$") //nolint:noctx // the test ends it
	cmd.Env = append(os.Environ(), childVariable+"="+strings.Join([]string{d.endpoints[0], r.dir, r.name}, " "))
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	started, err := process.Start(cmd)
	must(t, err)
	c := &child{started, in, bufio.NewReader(out)}
	t.Cleanup(c.kill)
	if got := c.hears(t); got != "ready" {
		t.Fatalf("the other controller says %q", got)
	}
	return c
}

func (c *child) kill() {
	_ = c.Process.Process.Kill()
	<-c.Ended()
}

func (c *child) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	must(t, c.Process.Process.Signal(s))
	if s == syscall.SIGSTOP {
		loopback.Until(t, "the process has stopped", func() bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Process.Pid))
			must(t, err)
			return strings.Contains(string(stat), ") T ")
		})
	}
}

func (c *child) says(t *testing.T, line string) {
	t.Helper()
	_, err := fmt.Fprintln(c.in, line)
	must(t, err)
}

func (c *child) hears(t *testing.T) string {
	t.Helper()
	for {
		line, err := c.out.ReadString('\n')
		must(t, err)
		if said, ok := strings.CutPrefix(strings.TrimSpace(line), "> "); ok {
			return said
		}
	}
}

// TestChild is no test, but the other process of some.
func TestChild(t *testing.T) {
	from := strings.Fields(os.Getenv(childVariable))
	if len(from) == 0 {
		t.Skip("it is a part of other tests")
	}
	s, _ := replica{place{dir: from[1]}, from[2]}.open(t, database{endpoints: from[:1], prefix: "/nodehitch", ttl: testTTL})
	fmt.Println("> ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		what, id, _ := strings.Cut(in.Text(), " ")
		var err error
		switch what {
		case "write":
			err = s.Update(putNode(id))
		case "hold": // in the middle of a transaction, until the next line
			err = s.Update(func(tx *Tx) error {
				fmt.Println("> holding")
				in.Scan()
				return putNode(id)(tx)
			})
		case "read":
			err = s.View(func(tx *Tx) error {
				_, found, err := tx.Nodes().Get(id)
				if !found {
					err = errors.New("none")
				}
				return err
			})
		}
		fmt.Println("> " + strings.ReplaceAll(fmt.Sprint(err), "\n", " "))
	}
}

// A process that was frozen does not know that its time is over. What it was told before it
// goes on must neither be written nor answered.
func TestAFrozenLeader(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	a, b := replicas(t)
	frozen := startChild(t, d, a)
	frozen.says(t, "write n1")
	if got := frozen.hears(t); got != "<nil>" {
		t.Fatal(got)
	}
	frozen.says(t, "hold late")
	if got := frozen.hears(t); got != "holding" {
		t.Fatal(got)
	}
	frozen.signal(t, syscall.SIGSTOP)
	frozen.says(t, "go on")
	frozen.says(t, "read n1")
	frozen.says(t, "write later")
	s, _ := b.open(t, d) // as soon as the lease is over
	update(t, s, func(tx *Tx) error { return tx.Nodes().Delete("n1") })
	frozen.signal(t, syscall.SIGCONT)
	for _, what := range []string{"the transaction that it was in", "a read", "another write"} {
		if got := frozen.hears(t); got == "<nil>" || got == "none" {
			t.Errorf("%s: it answers %q", what, got)
		}
	}
	update(t, s, putNode("n2"))
	if diff := cmp.Diff([]string{"n2"}, nodeIDs(t, s)); diff != "" {
		t.Error(diff)
	}
	shut(t, s)
	s, _ = b.open(t, d)
	if diff := cmp.Diff([]string{"n2"}, nodeIDs(t, s)); diff != "" {
		t.Errorf("etcd has something else: %s", diff)
	}
}

func TestAKilledLeader(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	a, b := replicas(t)
	killed := startChild(t, d, a)
	var want []string
	for i := range 20 {
		id := fmt.Sprintf("n%02d", i)
		killed.says(t, "write "+id)
		if got := killed.hears(t); got != "<nil>" {
			t.Fatal(got)
		}
		want = append(want, id)
	}
	killed.says(t, "write n99") // it may be done
	killed.kill()
	s, _ := b.open(t, d)
	got := nodeIDs(t, s)
	if len(got) > 20 && got[20] == "n99" {
		got = got[:20]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// One member of three that fails, also the leader, costs at most the term.
func TestAMemberOfEtcdFails(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Open(t, 3)
	d := databaseOf(cluster)
	a, _ := replicas(t)
	s, _ := a.open(t, d)
	var acknowledged []string
	for i, member := range cluster.Members {
		member.Freeze()
		var err error
		id := fmt.Sprintf("n%d", i)
		if err = s.Update(putNode(id)); err == nil {
			acknowledged = append(acknowledged, id)
		} else if !isProblem(err, api.ProblemUnavailable) {
			t.Errorf("error %v", err)
		}
		member.Thaw()
		if err != nil {
			_ = s.Close() // its lease may have to end by itself
			s, _ = a.open(t, d)
		}
	}
	shut(t, s)
	s, _ = a.open(t, d)
	have := map[string]bool{}
	for _, id := range nodeIDs(t, s) {
		have[id] = true
	}
	for _, id := range acknowledged {
		if !have[id] {
			t.Errorf("%s was acknowledged and is lost", id)
		}
	}
}

// etcd without space is a full disk: it takes nothing, answers go on, and nobody has to
// start the controller again.
func TestEtcdHasNoSpace(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, "--quota-backend-bytes=1048576")
	a, _ := replicas(t)
	s, _ := a.open(t, d)
	last := 0
	write := func(i int) error {
		return s.Update(func(tx *Tx) error {
			return tx.Nodes().Put("n1", Node{ID: "n1", Name: strconv.Itoa(i) + " " + strings.Repeat("x", 50_000)})
		})
	}
	var err error
	for err = write(last + 1); err == nil; err = write(last + 1) {
		if last++; last > 100 {
			t.Fatal("etcd takes more than it should")
		}
	}
	if !isProblem(err, api.ProblemUnavailable) || !strings.Contains(err.Error(), "space is used up") {
		t.Errorf("error %v", err)
	}
	has := func(s *Store) (n int) {
		view(t, s, func(tx *Tx) error {
			node, _, err := tx.Nodes().Get("n1")
			must(t, err)
			text, _, _ := strings.Cut(node.Name, " ")
			n, err = strconv.Atoi(text)
			return err
		})
		return n
	}
	if got := has(s); got != last {
		t.Errorf("it has %d, and %d was acknowledged last", got, last)
	}
	other := d.other(t)
	at, err := other.Get(t.Context(), "x")
	must(t, err)
	_, err = other.Compact(t.Context(), at.Header.Revision, clientv3.WithCompactPhysical())
	must(t, err)
	_, err = other.Defragment(t.Context(), d.endpoints[0])
	must(t, err)
	_, err = other.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
	must(t, err)
	if err := write(last + 1); err != nil {
		t.Fatalf("after etcd was repaired: %v", err)
	}
	shut(t, s)
	s, _ = a.open(t, d)
	if got := has(s); got != last+1 {
		t.Errorf("etcd has %d, want %d", got, last+1)
	}
}
