package browser

import (
	"syscall"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/kube/etcdtest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// panel is what the overview says of the controllers, "" if it says nothing of them.
const panel = `[...document.querySelectorAll('section[aria-labelledby="h-replicas"]')].map(s => s.innerText.replace(/\s+/g, ' ')).join()`

// Whoever opens the page at a follower sees who writes; what becomes of the others shows without a reload.
func TestThePageShowsTheReplicas(t *testing.T) {
	c := results.Begin(t, "browser", "the page shows the replicas", "at a follower: who writes, in which term; one that is killed says nothing, and is gone when its lease ends; all without a reload")
	endpoints, key := etcdtest.Open(t, 1).Endpoints(), loopback.SealKey(t)
	begin := func(id string) *controller {
		return &controller{t: t, Controller: loopback.Open(t, loopback.Options{Settings: loopback.Replica(t, id, key, endpoints...)})}
	}
	leader := begin("c1")
	follower := begin("c2")
	b := open(t, follower.Controller)
	b.signIn(leader.Token("alice", api.ScopeViewer).Secret, "/ui/")
	b.untilConnected()
	b.until("both are shown", `/2 share the store c1 Leader for \d+s, term \d+, .* c2 Follower /.test(`+panel+`)`)
	value[bool](b, "window.opened = true")
	third := begin("c3")
	b.until("the third one comes", `/3 share the store c1 Leader .* c3 Follower /.test(`+panel+`)`)
	third.End(syscall.SIGKILL)
	b.until("the third one is silent", `/ c3 Follower \S+ it does not answer the leader/.test(`+panel+`)`)
	b.until("the third one is gone", `/2 share the store c1 Leader .* c2 Follower \S+$/.test(`+panel+`)`)
	if !value[bool](b, "window.opened === true") {
		t.Error("the page was loaded again")
	}
	c.Figure("what the panel says at the end", "%s", value[string](b, panel))

	alone := newController(t)
	other := open(t, alone.Controller)
	other.signIn(alone.Token("alice", api.ScopeViewer).Secret, "/ui/")
	if text := value[string](other, panel); text != "" {
		t.Errorf("a controller with a store of its own shows %q", text)
	}
}
