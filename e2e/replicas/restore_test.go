package replicas

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/crowd"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// TestRestore puts etcd back to what it was, as a backup does, while the controllers run and
// know nothing of it.
func TestRestore(t *testing.T) {
	c := results.Begin(t, "replicas", "etcd is restored behind the controllers' back",
		"every controller refuses by name; an operator begins a new epoch, and what was revoked since stays out")
	results.LongOnly(t)
	w := open(t, 3, 3)
	w.describe(c)
	w.seen = crowd.Tally{}
	l := &load{w: w, phase: 1}
	l.newPollers()
	saved := filepath.Join(w.controllers[0].dir, "saved")
	w.etcdDown()
	for _, m := range w.etcd.Members {
		w.must(copyAll(m.DataDir, saved+filepath.Base(m.DataDir)))
	}
	w.etcdUp()
	w.leader()
	gone := l.pollers[0]
	w.must(w.caller(93).until(func(a *client.Controller) error { return client.Done(a.RevokeNode(t.Context(), gone.ServerID)) }))
	w.everyoneHasSeenIt()

	w.etcdDown()
	for _, m := range w.etcd.Members {
		w.must(os.RemoveAll(m.DataDir))
		w.must(copyAll(saved+filepath.Base(m.DataDir), m.DataDir))
	}
	w.etcdUp()
	const refusal = "its history went back"
	// The leader has its key and its lease again, so it finds out when it changes something.
	acknowledged, one := 0, w.caller(97)
	for _, each := range w.controllers {
		loopback.Until(t, each.name+" refuses, by name", func() bool {
			if _, err := one.once(func(a *client.Controller) error {
				return client.Done(a.PutInstance(t.Context(), id(9, 1), nil, spec(t, loopback.ClusterParams(""), nil)))
			}); err == nil {
				acknowledged++
			}
			return strings.Contains(each.log(), refusal) && strings.Contains(each.log(), "restore --etcd-was-restored")
		})
		each.refuses(2)
	}
	answered := w.answers()
	c.Figure("answered meanwhile", "%d of %d controllers", len(answered), len(w.controllers))
	c.Figure("changes acknowledged meanwhile", "%d", acknowledged)
	c.Unauthorised(int64(len(answered) + acknowledged))

	first := w.controllers[0]
	help, err := exec.CommandContext(t.Context(), first.binary, "restore", "--help").CombinedOutput()
	w.must(err)
	if !bytes.Contains(help, []byte("--etcd-was-restored")) {
		c.Figure("a new epoch", "not begun: this build has no `restore --etcd-was-restored`")
		return
	}
	for _, each := range w.controllers {
		each.stop()
	}
	began := time.Now()
	restore := exec.CommandContext(t.Context(), "nsenter", append(first.inside()[1:], first.binary, "restore", "--etcd-was-restored", "--config", first.config())...)
	if out, err := restore.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", restore.Args, err, out)
	}
	for _, each := range w.controllers {
		each.start()
	}
	w.confirm()
	w.await("every agent is let in again", 5*time.Minute, func(now crowd.Tally) bool {
		return now.Connected == w.size && now.Oldest < time.Since(began)
	})
	c.Figure("all agents are let in again", "%.0f s after the restore, enrolled anew %d", time.Since(began).Seconds(), w.seen.Enrolled)
	if w.seen.Enrolled != 0 {
		t.Errorf("%d agents have enrolled anew", w.seen.Enrolled)
	}
}

func (w *installation) etcdDown() {
	for _, m := range w.etcd.Members {
		m.Kill()
	}
}

func (w *installation) etcdUp() {
	w.t.Helper()
	for _, m := range w.etcd.Members {
		m.StartUnder()
	}
	for _, m := range w.etcd.Members {
		m.WaitReady()
	}
}

// everyoneHasSeenIt waits until each controller's disk has what etcd has now.
func (w *installation) everyoneHasSeenIt() {
	w.t.Helper()
	answer, err := w.db.Get(w.t.Context(), prefix+"/head")
	w.must(err)
	for _, c := range w.controllers {
		loopback.Until(w.t, c.name+" has noted how far etcd has come", func() bool {
			revision, err := c.seenRevision()
			return err == nil && revision >= answer.Kvs[0].ModRevision
		})
	}
}

// confirm lets the nodes of all instances in again.
func (w *installation) confirm() {
	w.t.Helper()
	root := func() *client.Controller {
		one, err := client.New(client.Options{UnixSocket: w.leader().socket(), Timeout: callLimit})
		w.must(err)
		return one
	}
	loopback.Until(w.t, "the instances are confirmed", func() bool {
		a := root()
		defer a.CloseIdle()
		list, err := client.Read[api.InstanceList](a.ListInstances(w.t.Context(), nil))
		if err != nil {
			return false
		}
		for _, i := range list.Items {
			if client.Done(a.ConfirmInstance(w.t.Context(), i.ID)) != nil {
				return false
			}
		}
		return true
	})
}
