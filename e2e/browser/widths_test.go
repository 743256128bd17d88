package browser

import (
	"net/http/httptest"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/nodehitch/nodehitch/controller/ui/page/pagetest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// tooWide are the parts of a page that reach beyond the window, or a table beyond what it stands in.
const tooWide = `(() => {
  const found = [], root = document.documentElement, right = e => e.getBoundingClientRect().right;
  if (root.scrollWidth > root.clientWidth) found.push('the page: ' + root.scrollWidth + ' px');
  for (const e of document.querySelectorAll('body *:not(svg *)')) {
    const within = e.tagName === 'TABLE' ? right(e.parentElement) : root.clientWidth;
    if (e.checkVisibility() && right(e) > within + .5 && !e.closest('.sr, .skip')) found.push(e.tagName + '.' + e.className + ' to ' + right(e) + ' of ' + within + ' px: ' + e.textContent.trim().slice(0, 80));
  }
  return found.slice(0, 5);
})()`

func TestNoPageIsWiderThanItsWindow(t *testing.T) {
	c := results.Begin(t, "browser", "widths", "no page and no table is wider than a window of 375 or 1280 px: with ordinary rows, a name of 78 characters, hostile texts, no data; light and dark")
	worlds := pagetest.Worlds()
	worlds["hostile"] = pagetest.Hostile()
	checked := 0
	for name, world := range worlds {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(world)
			t.Cleanup(server.Close)
			b := open(t, &loopback.Controller{URL: server.URL})
			for _, path := range world.Paths(3) {
				b.visit(path)
				for _, scheme := range []string{"light", "dark"} {
					b.run(protocol(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
					for _, width := range []int64{1280, 375} {
						b.run(chromedp.EmulateViewport(width, 900))
						for _, part := range value[[]string](b, tooWide) {
							t.Errorf("%s (%s, %d px): %s", path, scheme, width, part)
						}
						checked++
					}
				}
			}
			b.excuse("status of 404", "console.error \"[object Event]\"") // of the page that is not there; a sample world has no stream of events
		})
	}
	c.Figure("checks", "%d", checked)
}
