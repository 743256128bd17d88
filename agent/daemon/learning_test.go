package daemon_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// also is another address of the controller: with a certificate of this root, and with
// change between it and the controller, if there is one.
func (c *controller) also(root testca.Authority, change func(http.Handler) http.Handler) *httptest.Server {
	c.t.Helper()
	handler := c.server.Config.Handler
	if change != nil {
		handler = change(handler)
	}
	s := httptest.NewUnstartedServer(handler)
	s.TLS = c.server.TLS.Clone()
	s.TLS.Certificates = s.TLS.Certificates[:0:0]
	s.TLS.Certificates = append(s.TLS.Certificates, root.Intermediate(c.t).Server(c.t, time.Now().Add(time.Hour), "127.0.0.1"))
	s.Config.ErrorLog = testca.Quiet
	s.StartTLS()
	c.t.Cleanup(s.Close)
	return s
}

// tell makes the controller tell these addresses with each answer. From then on polls are
// held shortly: the next one may begin before this and be held after it.
func (c *controller) tell(urls ...string) {
	c.set(func() {
		c.hold, c.tells = 100*time.Millisecond, map[string]string{"Nodehitch-Controller-Urls": strings.Join(urls, " ")}
	})
}

// epoch makes an address answer in another epoch than the controller.
func epoch(epoch int64) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/node/config" {
				next.ServeHTTP(w, r)
				return
			}
			w.Header().Set("ETag", `"of another epoch"`)
			_ = json.NewEncoder(w).Encode(api.NodeConfig{APIVersion: api.NodeConfigV1, Role: api.RoleStorage, Generation: 9, Epoch: epoch})
		})
	}
}

func (n *node) logged(part string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Contains(n.logs.String(), part)
}

func TestAControllerThatMovesIsFoundAgain(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	moved := c.also(c.root, nil)
	n := newNode(t, c)
	stop := n.start()
	until(t, "Ready", n.ready(c, 1))
	c.tell(moved.URL, c.server.URL)
	until(t, "it speaks to the new address", func() bool { return n.status().Controller.URL == moved.URL })
	if learned := n.status().Controller.Learned; !slices.Equal(learned, []string{moved.URL}) {
		t.Errorf("learned %v: an address of agent.yaml is not learned", learned)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	c.server.Close()
	c.set(func() { c.tells = nil })
	c.give(2, 1, "")
	n.start()
	until(t, "it is back after a restart, by the new address alone", n.ready(c, 2))
	c.give(3, 1, "")
	until(t, "it keeps the address that works, although it is not offered any more", n.ready(c, 3))
	if s := n.status().Controller; s.URL != moved.URL {
		t.Errorf("it speaks to %s", s.URL)
	}
}

// speaksTo waits until the agent uses the first of these learned addresses, and has no
// other one, also not on disk.
func (n *node) speaksTo(url string, learned ...string) {
	n.t.Helper()
	until(n.t, "it speaks to "+url, func() bool {
		s := n.status().Controller
		return s.Connected && s.URL == url && slices.Equal(s.Learned, learned)
	})
	if all := n.status().Controller.URLs; !slices.Equal(all, append(slices.Clone(learned), n.cfg.ControllerURLs...)) {
		n.t.Errorf("its addresses are %v", all)
	}
	var kept []string
	known, err := n.state().ControllerURLs()
	for _, u := range known {
		kept = append(kept, u.URL)
	}
	if err != nil || !slices.Equal(kept, learned) {
		n.t.Errorf("it keeps %v, %v", kept, err)
	}
}

// The first address that is offered is preferred, whichever was learned first.
func TestAddressesAreTriedInTheOrderInWhichTheyAreOffered(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	first, second := c.also(c.root, nil), c.also(c.root, nil)
	n := newNode(t, c)
	n.start()
	c.tell(first.URL, second.URL)
	n.speaksTo(first.URL, first.URL, second.URL)
	c.tell(second.URL, first.URL)
	n.speaksTo(second.URL, second.URL, first.URL)
}

func TestAnAddressThatIsNoLongerOfferedIsForgotten(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	before, moved := c.also(c.root, nil), c.also(c.root, nil)
	n := newNode(t, c)
	n.start()
	c.tell(before.URL)
	n.speaksTo(before.URL, before.URL)
	c.tell(moved.URL)
	n.speaksTo(moved.URL, moved.URL)
	c.tell()
	n.speaksTo(c.server.URL)
}

// Whoever writes the state file can send the agent nowhere: a server without a certificate
// of the pinned CA gets no poll, and what the controller does not offer is forgotten.
func TestAddressesThatSomeoneElseWroteDoNoHarm(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	foreign, gone := c.also(testca.Root(t, "root"), func(http.Handler) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			t.Errorf("the foreign server got %s %s", r.Method, r.URL)
		})
	}), c.also(c.root, nil)
	gone.Close()
	n := newNode(t, c)
	if err := n.state().SaveControllerURLs([]state.ControllerURL{{URL: foreign.URL, Epoch: 1}, {URL: gone.URL, Epoch: 1}}); err != nil {
		t.Fatal(err)
	}
	n.start()
	until(t, "Ready", n.ready(c, 1))
	n.speaksTo(c.server.URL)
}

// The address of agent.yaml stays in use if the learned ones no longer work.
func TestALearnedAddressThatIsGoneIsDoneWithout(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	moved := c.also(c.root, nil)
	n := newNode(t, c)
	n.start()
	c.tell(moved.URL)
	until(t, "it speaks to the new address", func() bool { return n.status().Controller.URL == moved.URL })
	moved.CloseClientConnections()
	moved.Close()
	c.give(2, 1, "")
	until(t, "the document comes by agent.yaml's address", n.ready(c, 2))
	if s := n.status().Controller; s.URL != c.server.URL {
		t.Errorf("it speaks to %s", s.URL)
	}
}

func TestAToldAddressThatIsNotTheControllerIsNotUsed(t *testing.T) {
	for name, c := range map[string]struct {
		says  string
		other func(c *controller) *httptest.Server
	}{
		"another CA":      {"certificate", func(c *controller) *httptest.Server { return c.also(testca.Root(c.t, "root"), nil) }},
		"another epoch":   {"epoch 2", func(c *controller) *httptest.Server { return c.also(c.root, epoch(2)) }},
		"another's nodes": {"revoked", func(c *controller) *httptest.Server { return c.also(c.root, refusing) }},
		"no listener": {"connection refused", func(c *controller) *httptest.Server {
			s := c.also(c.root, nil)
			s.Close()
			return s
		}},
	} {
		t.Run(name, func(t *testing.T) {
			controller := newController(t)
			controller.give(1, 1, "")
			other := c.other(controller)
			n := newNode(t, controller)
			n.start()
			until(t, "Ready", n.ready(controller, 1))
			controller.tell(other.URL)
			until(t, "it says why", func() bool { return n.logged("does not work") && n.logged(c.says) })
			if learned, err := n.state().ControllerURLs(); len(learned) > 0 || err != nil {
				t.Errorf("kept %v, %v", learned, err)
			}
			controller.give(2, 1, "")
			until(t, "it continues at the old address", n.ready(controller, 2))
			if s := n.status().Controller; s.URL != controller.server.URL || len(s.Learned) > 0 {
				t.Errorf("it speaks to %s, and has learned %v", s.URL, s.Learned)
			}
		})
	}
}

func refusing(http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		problem(w, api.NewProblem(api.ProblemRevoked, "it is revoked"))
	})
}

// A restore begins another epoch: an address that was learned before may lead to the old
// controller.
func TestWhatWasLearnedBeforeARestoreCountsNoMore(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	gone := c.also(c.root, epoch(1))
	n := newNode(t, c)
	if err := n.state().SaveControllerURLs([]state.ControllerURL{{URL: gone.URL, Epoch: 1}}); err != nil {
		t.Fatal(err)
	}
	c.give(2, 2, "")
	n.start()
	until(t, "Ready", n.ready(c, 2))
	if s := n.status().Controller; s.URL != c.server.URL || len(s.Learned) > 0 {
		t.Errorf("it speaks to %s, and has learned %v", s.URL, s.Learned)
	}
}

func TestTheAgentThatIsWantedIsShownAndNothingElseIsDone(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	c.tells = map[string]string{"Nodehitch-Agent-Version": "v9", "Nodehitch-Agent-Sha256": strings.Repeat("a", 64), "Nodehitch-Agent-Size": "7"}
	n := newNode(t, c)
	n.start()
	want := api.WantedAgent{Version: "v9", SHA256: strings.Repeat("a", 64), SizeBytes: 7}
	until(t, "it is in the status", func() bool { w := n.status().Controller.Wanted; return w != nil && *w == want })
	until(t, "Ready", n.ready(c, 1))
	if asked := c.count("GET /v1/agent"); asked != 0 {
		t.Errorf("the agent was asked for %d times", asked)
	}
	c.set(func() { c.tells = nil })
	until(t, "it is wanted no more", func() bool { return n.status().Controller.Wanted == nil })
}
