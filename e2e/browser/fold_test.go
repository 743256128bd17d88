package browser

import (
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/nodehitch/nodehitch/controller/ui/page/pagetest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
)

func TestOnAPhoneHealthyNodesFold(t *testing.T) {
	results.Begin(t, "browser", "a fleet on a phone", "a window of 390 px shows the nodes that are not Ready, and the others if their number is chosen; a wide one shows all")
	world := pagetest.Fleet(100)
	sick := 0
	for _, n := range world.Nodes {
		if !n.Ready {
			sick++
		}
	}
	server := httptest.NewServer(world)
	t.Cleanup(server.Close)
	b := open(t, &loopback.Controller{URL: server.URL})
	for path, nodes := range map[string]string{"/ui/": ".squares a", "/ui/nodes": "#live tbody tr"} {
		seen := func(width int64) int {
			b.run(chromedp.EmulateViewport(width, 900))
			return value[int](b, "[...document.querySelectorAll('"+nodes+"')].filter(e => e.checkVisibility()).length")
		}
		b.visit(path)
		if n := seen(390); n != sick || sick == 0 {
			t.Errorf("%s shows %d nodes on a phone, and %d are not Ready", path, n, sick)
		}
		if path == "/ui/" && value[string](b, "getComputedStyle(document.querySelector('.map')).maxHeight") != "none" {
			t.Error("the map scrolls within the page on a phone: nodes below are not seen")
		}
		if n := seen(1280); n != 100 || value[bool](b, "document.querySelector('.fold').checkVisibility()") {
			t.Errorf("%s shows %d nodes in a wide window, or folds them", path, n)
		}
		b.run(chromedp.EmulateViewport(390, 900))
		value[bool](b, "document.querySelector('.fold summary').click(), true")
		if n := seen(390); n != 100 {
			t.Errorf("%s shows %d nodes when the fold is open", path, n)
		}
	}
	b.excuse("status of 404", "console.error \"[object Event]\"") // a sample world has no stream of events
}
