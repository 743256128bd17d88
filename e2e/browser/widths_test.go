package browser

import (
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
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

// onTop are the texts of a page that lie on one another.
const onTop = `(() => {
  const found = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), all = [];
  for (let t; all.length < 6000 && (t = texts.nextNode());) {
    const e = t.parentElement;
    const head = e.closest('thead');
    if (!t.data.trim() || e.closest('.sr, .skip, option') || head && getComputedStyle(head).clipPath !== 'none' || !e.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(t);
    const bottom = e.closest('.map')?.getBoundingClientRect().bottom ?? Infinity; // it is scrolled
    for (const r of range.getClientRects()) if (r.bottom < bottom) all.push({r, e, text: t.data.trim().slice(0, 60)});
  }
  all.sort((a, b) => a.r.top - b.r.top);
  all.forEach((a, i) => {
    for (let k = i + 1; k < all.length && all[k].r.top < a.r.bottom - 4; k++) {
      const b = all[k];
      if (a.e !== b.e && Math.min(a.r.right, b.r.right) - Math.max(a.r.left, b.r.left) > 2 && b.r.bottom > a.r.top + 4) found.push(a.text + ' | ' + b.text);
    }
  });
  return found.slice(0, 5);
})()`

// sideBySide are events that stand beside one another: nobody sees which one was first.
const sideBySide = `[...document.querySelectorAll('.events tbody')].filter(e =>
  new Set([...e.rows].map(row => Math.round(row.getBoundingClientRect().left))).size > 1).map(e => 'events beside one another: ' + e.rows.length)`

// torn are words of a table that are broken although they are short, and hints of fields that are cut.
const torn = `(() => {
  const found = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
  for (let t; t = texts.nextNode();) {
    if (!t.parentElement.closest('.rows th, .rows td') || t.parentElement.closest('thead') || !t.parentElement.checkVisibility()) continue;
    for (const word of t.data.matchAll(/(?<!\S)\w{2,20}(?=[:,;.)]?(\s|$))/g)) {
      range.setStart(t, word.index);
      range.setEnd(t, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 1) found.push('a broken word: ' + word[0]);
    }
  }
  const canvas = document.createElement('canvas').getContext('2d');
  for (const e of document.querySelectorAll('input[placeholder]')) {
    const s = getComputedStyle(e);
    canvas.font = s.fontSize + ' ' + s.fontFamily;
    if (canvas.measureText(e.placeholder).width > e.clientWidth - parseFloat(s.paddingLeft) - parseFloat(s.paddingRight)) found.push('a hint that is cut: ' + e.placeholder);
  }
  return found.slice(0, 5);
})()`

// jumps is how the head of a page grows when the connection is lost.
const jumps = `(() => {
  const c = document.getElementById('connection'), top = document.querySelector('.top');
  if (!c) return [];
  const [was, said] = [c.dataset.state, c.textContent];
  const [live, lost] = [['live', 'Live'], ['lost', 'Connection lost since 14:30:12']].map(([state, text]) => {
    c.dataset.state = state;
    c.textContent = text;
    return top.offsetHeight;
  });
  c.textContent = said;
  if (was) c.dataset.state = was; else delete c.dataset.state;
  return live === lost ? [] : ['the head has ' + live + ' px, and ' + lost + ' if the connection is lost'];
})()`

// low is what a finger has to meet, on a phone, and is less than 44 px high.
const low = `innerWidth > 640 ? [] : [...document.querySelectorAll('.top nav a, button, input, select, summary, .pager > a')]
  .filter(e => e.offsetHeight > 0 && e.offsetHeight < 44).slice(0, 5).map(e => 'only ' + e.offsetHeight + ' px high: ' + (e.innerText || e.name))`

func TestNoPageIsWiderThanItsWindow(t *testing.T) {
	c := results.Begin(t, "browser", "widths", "no page and no table is wider than a window of 375 or 1280 px, no text lies on another, no short word in a table is broken, no hint of a field is cut, the head has one height, on a phone a finger meets 44 px, and events stand below one another: with ordinary rows, a name of 78 characters, hostile texts, no data; light and dark, with letters of 16 and 20 px")
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
				for _, as := range []struct {
					scheme string
					font   int64
				}{{"light", 16}, {"dark", 16}, {"light", 20}} {
					b.run(protocol(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: as.scheme}}}),
						protocol(page.SetFontSizes, page.SetFontSizesParams{FontSizes: &page.FontSizes{Standard: as.font}}))
					for _, width := range []int64{1280, 375} {
						b.run(chromedp.EmulateViewport(width, 900))
						for _, part := range slices.Concat(value[[]string](b, tooWide), value[[]string](b, onTop), value[[]string](b, sideBySide), value[[]string](b, torn), value[[]string](b, jumps), value[[]string](b, low)) {
							t.Errorf("%s (%s, %d px, letters of %d px): %s", path, as.scheme, width, as.font, part)
						}
						size := value[float64](b, "parseFloat(getComputedStyle(document.body).fontSize)")
						if ratio := size / float64(as.font); ratio < .9 || ratio > 1.35 {
							t.Errorf("%s has letters of %.1f px where the reader has set %d px", path, size, as.font)
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
