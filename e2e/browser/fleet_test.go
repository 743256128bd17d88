package browser

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// painted is when the browser first painted something, in milliseconds after the page was asked for,
// and load what the page took: until its last byte, and its bytes.
const (
	painted = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
	load    = "(e => ({answered: e.responseEnd - e.requestStart, bytes: e.decodedBodySize}))(performance.getEntriesByType('navigation')[0])"
)

// longTasks has the browser sum up what kept it from answering its user.
const longTasks = `(window.busy = 0, new PerformanceObserver(list => list.getEntries().forEach(e => { window.busy += e.duration }))
  .observe({type: 'longtask'}), true)`

func TestALargeFleet(t *testing.T) {
	for _, size := range []struct {
		nodes, changes int
		long           bool
	}{{200, 10, false}, {2000, 120, true}} {
		t.Run(fmt.Sprint(size.nodes), func(t *testing.T) {
			c := results.Begin(t, "browser", fmt.Sprintf("%d nodes", size.nodes), "the pages of a large fleet, what a change takes to be shown, and what an open page costs the controller")
			if size.long {
				results.LongOnly(t)
			}
			large(t, c, size.nodes, size.changes)
		})
	}
}

func large(t *testing.T, c *results.Case, nodes, changes int) {
	w := newController(t)
	w.fleet(nodes)
	b := open(t, w.Controller)
	b.signIn(w.Token("alice", api.ScopeViewer).Secret, "/ui/")
	for _, path := range []string{"/ui/", "/ui/instances", "/ui/nodes", "/ui/nodes?state=Enrolled&page=2", "/ui/history"} {
		b.visit(path)
		b.until("something is painted", painted)
		l := value[struct{ Answered, Bytes float64 }](b, load)
		c.Figure(path, "%.0f KiB, answered in %.0f ms, painted after %.0f ms", l.Bytes/1024, l.Answered, value[float64](b, painted))
	}
	b.visit("/ui/nodes")
	b.untilConnected()
	if rows := value[int](b, "document.querySelectorAll('#live tbody tr').length"); rows != min(nodes, 200) {
		t.Errorf("a page has %d rows", rows)
	}

	// A node in the middle of the page loses its identity. The page looks for it itself: to ask it again
	// and again would keep it from its work.
	server := w.machines[150].ServerID
	value[bool](b, fmt.Sprintf(`(window.shown = new Promise(done => new MutationObserver(() => {
	  const row = document.querySelector('#live a[href$=%q]')?.closest('tr');
	  if (row?.textContent.includes('Revoked')) done(true);
	}).observe(document.getElementById('live'), {childList: true, subtree: true})), true)`, server))
	began := time.Now()
	w.must(client.Done(w.API.RevokeNode(t.Context(), server)))
	value[bool](b, "window.shown")
	c.Figure("a change is shown after", "%.1f s", time.Since(began).Seconds())

	value[bool](b, longTasks)
	fragments := w.fragments()
	opened := w.cost(changes)
	busy := value[float64](b, "window.busy")
	fragments = w.fragments() - fragments
	b.run(chromedp.Navigate("about:blank"))
	closed := w.cost(changes)
	c.Figure("changes", "%d, two a second", changes)
	c.Figure("fragments while the page was open", "%d", fragments)
	c.Figure("tasks of the page that took longer than 50 ms", "%.0f ms in all, for %d changes", busy, changes)
	c.Figure("CPU of the controller", "%.1f %% with the page open, %.1f %% without", opened, closed)
	u := w.Usage()
	c.Figure("memory of the controller", "%d MiB, at most %d MiB", u.Resident>>20, u.Peak>>20)
}

// cost is the processor time of the controller, in percent of one processor, while nodes report changes.
func (w *controller) cost(changes int) float64 {
	w.t.Helper()
	began, before := time.Now(), w.Usage().CPU
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for i := range changes {
		<-tick.C
		w.must(w.report(w.machines[i%100], fmt.Sprintf("5.10.0-%d", time.Now().UnixNano())))
	}
	return 100 * (w.Usage().CPU - before).Seconds() / time.Since(began).Seconds()
}

// fragments is how many parts of the list of nodes the browser was given, or had already.
func (w *controller) fragments() (n int) {
	w.t.Helper()
	all, err := w.Metrics()
	w.must(err)
	for _, code := range []string{"200", "304"} {
		n += int(all[`nodehitch_http_requests_total{code="`+code+`",operation="ui.nodes"}`])
	}
	return n
}
