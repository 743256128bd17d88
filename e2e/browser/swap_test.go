package browser

import (
	"fmt"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// asks is how often the page has asked for what changes.
const asks = "performance.getEntriesByType('resource').filter(e => e.initiatorType == 'xmlhttprequest').length"

// unswapped is true until what changes was swapped.
const unswapped = "document.querySelector('#live [data-old]')"

func (b *tab) mark() {
	value[bool](b, "!!(document.getElementById('live').firstElementChild.dataset.old = '1')")
}

// A page that changes keeps where its reader is: the focus, how far the page is scrolled, what is
// open, what is typed into a filter, and what is selected.
func TestAChangeTakesNothingFromTheReader(t *testing.T) {
	c := results.Begin(t, "browser", "a change takes nothing from the reader", "focus, scroll, open details, a typed filter and a selected text stay when the page changes")
	w := newController(t)
	w.fleet(60)
	b := open(t, w.Controller)
	b.signIn(w.Token("alice", api.ScopeViewer).Secret, "/ui/nodes")
	b.untilConnected()
	kernels := 0
	change := func() {
		kernels++
		w.must(w.report(w.machines[50], fmt.Sprintf("6.1.0-%d", kernels)))
		w.must(w.notReady(w.machines[50], kernels%2 == 1))
	}

	position := value[string](b, `(() => {
		document.querySelector('input[name=text]').value = 'typed';
		window.scrollTo(0, 500);
		document.querySelectorAll('#live tbody a')[80].focus({preventScroll: true});
		return document.activeElement.href + ' ' + scrollY;
	})()`)
	b.mark()
	change()
	b.until("the list is swapped", "!"+unswapped)
	if got := value[string](b, "document.activeElement.href + ' ' + scrollY"); got != position {
		t.Errorf("the reader was at %s, and is at %s", position, got)
	}
	if got := value[string](b, "document.querySelector('input[name=text]').value"); got != "typed" {
		t.Errorf("the filter has %q", got)
	}

	b.mark()
	value[bool](b, "getSelection().selectAllChildren(document.querySelector('#live tbody tr')), true")
	selected, asked := value[string](b, "getSelection().toString()"), value[int](b, asks)
	change()
	b.until("the page has asked", fmt.Sprintf("%s > %d", asks, asked))
	if value[bool](b, "!"+unswapped) || value[string](b, "getSelection().toString()") != selected || selected == "" {
		t.Errorf("what was selected, %q, is gone", selected)
	}
	value[bool](b, "getSelection().removeAllRanges(), true")
	b.until("the list is swapped once nothing is selected", "!"+unswapped)

	b.visit("/ui/")
	b.untilConnected()
	b.mark()
	value[bool](b, "document.getElementById('d-map').open = false, true")
	change()
	b.until("the overview is swapped", "!"+unswapped)
	if value[bool](b, "document.getElementById('d-map').open") {
		t.Error("what was closed is open again")
	}
	c.Figure("changes", "%d", kernels)
}

// notReady reports a machine that is what it should be, or is not Ready.
func (w *controller) notReady(m *loopback.Machine, not bool) error {
	config, err := m.Config(w.t.Context())
	if err != nil {
		return err
	}
	s := loopback.Converged(*config)
	if not {
		s.Conditions[0].Status, s.Conditions[0].Reason = api.ConditionFalse, api.ReasonNotReady
	}
	return m.Report(w.t.Context(), s)
}
