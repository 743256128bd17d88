package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// ended is what the browser, and htmx, say of a stream that has ended, of a fragment that is
// refused, and of one whose controller is killed before it has answered.
var ended = []string{"net::ERR_", "console.error \"[object Event]\"", "status of 401", "Response Status Error Code 401", "htmx:afterRequest", "htmx:sendError"}

// marked is true while the page has not been loaded again since mark.
const mark, marked = "window.stays = true", "window.stays"

func TestAPageFollowsWhatHappens(t *testing.T) {
	c := results.Begin(t, "browser", "sign-in, and a change", "a viewer signs in with a token, and an instance that is made appears without a reload")
	w := newController(t)
	b := open(t, w.Controller)
	b.signIn(w.Token("alice", api.ScopeViewer).Secret, "/ui/")
	value[bool](b, mark)
	began := time.Now()
	w.fleet(1)
	b.untilShown("worker0")
	c.Figure("shown after", "%.1f s", time.Since(began).Seconds())
	if !value[bool](b, marked) {
		t.Error("the page was loaded again")
	}
}

func TestARevokedTokensPageEnds(t *testing.T) {
	c := results.Begin(t, "browser", "a token is revoked", "the page that is open shows the form to sign in, and nothing opens it again")
	w := newController(t)
	w.fleet(1)
	token := w.Token("alice", api.ScopeViewer)
	b := open(t, w.Controller)
	b.signIn(token.Secret, "/ui/nodes")
	b.untilShown("worker0")
	b.untilConnected()
	began := time.Now()
	w.must(client.Done(w.API.RevokeToken(t.Context(), token.Token.ID)))
	b.until("the form is shown", formShown)
	c.Figure("ended after", "%.1f s", time.Since(began).Seconds())
	b.excuse(ended...)
	b.visit("/ui/nodes")
	b.until("the form is shown", formShown)
	if value[bool](b, "document.body.innerText.includes('worker0')") {
		t.Error("a node is shown")
	}
	c.Unauthorised(0)
}

func TestALinkOfAnotherSite(t *testing.T) {
	c := results.Begin(t, "browser", "a link of another site", "who is signed in follows a dashboard's link to a node, and need not sign in again")
	w := newController(t)
	w.fleet(1)
	dashboard := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(out, `<!doctype html><link rel=icon href="data:,"><a href="%s/ui/nodes?text=worker0">worker0</a>`, w.URL)
	}))
	defer dashboard.Close()
	b := open(t, w.Controller)
	b.signIn(w.Token("alice", api.ScopeViewer).Secret, "/ui/")
	b.run(chromedp.Navigate(strings.Replace(dashboard.URL, "127.0.0.1", "localhost", 1)), chromedp.Click(chromedp.CSS("a")))
	b.until("the nodes are shown", "location.pathname == '/ui/nodes' && document.querySelector('#live a.name')")
	b.excuse("status of 401")
	c.Unauthorised(0)
}

func TestTheControllerIsKilledAndComesBack(t *testing.T) {
	c := results.Begin(t, "browser", "the controller is killed", "the page shows what has happened since, without a reload or another sign-in")
	w := newController(t)
	w.fleet(1)
	b := open(t, w.Controller)
	b.run(protocol(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"}))
	b.signIn(w.Token("alice", api.ScopeViewer).Secret, "/ui/nodes")
	b.untilShown("worker0")
	b.untilConnected()
	value[bool](b, mark)
	w.End(syscall.SIGKILL)
	b.until("the page says that it has lost the controller", "!("+connected+")")
	said := value[string](b, "document.getElementById('connection').textContent")
	at, err := time.Parse("Connection lost since "+time.TimeOnly, said)
	if ago := time.Since(time.Now().UTC().Truncate(24 * time.Hour).Add(at.Sub(at.Truncate(24 * time.Hour)))).Abs(); err != nil || ago > time.Minute && ago < 24*time.Hour-time.Minute {
		t.Errorf("a browser of another zone says %q: not as all other times, in UTC (%v)", said, err)
	}
	w.Start()
	w.PutParams(w.instances[0], loopback.ClusterParams(""), loopback.Workers(id, 0, 2))
	began := time.Now()
	b.untilShown("worker1")
	c.Figure("shown after", "%.1f s", time.Since(began).Seconds())
	b.untilConnected()
	if !value[bool](b, marked) {
		t.Error("the page was loaded again")
	}
	b.excuse(ended...)
}
