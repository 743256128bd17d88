package page_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/ui/page"
	"github.com/nodehitch/nodehitch/controller/ui/page/pagetest"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/plain"
)

// written is what a world shows at a path.
func written(t testing.TB, w pagetest.World, path string, fragment bool) string {
	t.Helper()
	u, err := url.Parse(path)
	if err != nil {
		t.Fatal(err)
	}
	f, v := pagetest.Frame(u), w.View(u)
	f.Fragment = fragment
	if v == nil {
		v = page.Problem{Problem: *api.NewProblem(api.ProblemNotFound, "there is no "+path)}
	}
	var out bytes.Buffer
	if err := page.Write(&out, f, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return out.String()
}

// elements calls do for each element of a page.
func elements(t testing.TB, text string, do func(*html.Node)) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			do(n)
		}
	}
}

func attribute(n *html.Node, name string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

// everyPage calls do for each page of each world, also the hostile one.
func everyPage(t *testing.T, do func(t *testing.T, w pagetest.World, path string)) {
	worlds := pagetest.Worlds()
	worlds["hostile"] = pagetest.Hostile()
	pages := 0
	for _, name := range slices.Sorted(maps.Keys(worlds)) {
		w, few := worlds[name], 90
		if name == "fleet" {
			few = 3
		}
		for _, path := range w.Paths(few) {
			pages++
			t.Run(name+path, func(t *testing.T) { do(t, w, path) })
		}
	}
	if pages < 200 {
		t.Errorf("%d pages only", pages)
	}
}

// The elements that pages have. A text from outside that became one would be another, or would
// have attributes that no template has.
var (
	known = map[string]string{
		"html": "lang", "head": "", "meta": "charset name content", "title": "", "link": "rel href type", "script": "src defer",
		"body": "class hx-ext sse-connect", "a": "class href title rel aria-current aria-label", "header": "class", "nav": "aria-label class", "ul": "class", "ol": "class aria-label", "li": "class",
		"div": "class id hx-get hx-trigger hx-swap data-etag", "p": "class id role aria-hidden", "form": "method action class role", "button": "type class title data-copy aria-label",
		"span": "class aria-hidden aria-current", "main": "id tabindex", "footer": "class", "code": "", "h1": "class id", "h2": "id class", "h3": "", "h4": "", "strong": "", "b": "", "i": "class",
		"section": "class aria-labelledby", "article": "class", "dl": "class", "dt": "", "dd": "", "table": "class", "caption": "", "thead": "", "tbody": "",
		"tr": "class", "th": "scope class", "td": "data-label class colspan", "time": "datetime title data-show", "details": "class id open", "summary": "",
		"label": "for", "input": "type name value placeholder autocomplete spellcheck id required autofocus hidden", "select": "name", "option": "value selected",
		"svg": "class aria-hidden width height viewbox viewBox", "symbol": "id viewBox", "use": "href", "circle": "cx cy r fill stroke stroke-width",
		"path": "d fill stroke stroke-width stroke-linecap stroke-linejoin", "pattern": "id width height patternUnits patternTransform",
		"rect": "class x y width height rx fill", "line": "x1 x2 y1 y2", "text": "x y text-anchor",
	}
)

// No text becomes markup, and nothing on a page needs a policy that allows inline code or style.
func TestPagesHaveOnlyWhatTheirTemplatesHave(t *testing.T) {
	everyPage(t, func(t *testing.T, w pagetest.World, path string) {
		for _, fragment := range []bool{false, true} {
			elements(t, written(t, w, path, fragment), func(n *html.Node) {
				attributes, ok := known[n.Data]
				if !ok {
					t.Errorf("has an element %s", n.Data)
				}
				for _, a := range n.Attr {
					if !slices.Contains(strings.Fields(attributes), a.Key) {
						t.Errorf("%s has an attribute %s=%q", n.Data, a.Key, a.Val)
					}
					if strings.Contains(strings.ToLower(a.Val), "javascript:") {
						t.Errorf("%s has %s=%q", n.Data, a.Key, a.Val)
					}
				}
				if _, external := attribute(n, "src"); n.Data == "script" && (!external || n.FirstChild != nil) {
					t.Error("has an inline script")
				}
			})
		}
	})
}

// routes are the paths of the page, as echo reads them.
func routes() []*regexp.Regexp {
	var list []*regexp.Regexp
	for _, path := range []string{page.PathOverview, page.PathInstances, page.PathInstance, page.PathNodes, page.PathNode, page.PathOperations, page.PathOperation,
		page.PathVolumes, page.PathVolume, page.PathRegistries, page.PathHistory, page.PathEvents, page.PathAsset, page.PathSignIn, page.PathSignOut} {
		list = append(list, regexp.MustCompile("^"+regexp.MustCompile(`:[a-z]+`).ReplaceAllString(path, "[^/]+")+"$"))
	}
	return list
}

// Each link leads to a route, and each of a world whose ids are true to a page that is there.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	routes := routes()
	everyPage(t, func(t *testing.T, w pagetest.World, path string) {
		elements(t, written(t, w, path, false), func(n *html.Node) {
			for _, name := range []string{"href", "src", "action", "hx-get", "sse-connect"} {
				target, ok := attribute(n, name)
				if !ok || strings.HasPrefix(target, "#") {
					continue
				}
				u, err := url.Parse(target)
				if err != nil || u.Host != "" || u.Scheme != "" {
					t.Errorf("%s=%q leads elsewhere (%v)", name, target, err)
					continue
				}
				if !slices.ContainsFunc(routes, func(r *regexp.Regexp) bool { return r.MatchString(u.EscapedPath()) }) && name != "hx-get" {
					t.Errorf("%s=%q is no route", name, target)
				}
				if file, ok := strings.CutPrefix(u.Path, strings.TrimSuffix(page.PathAsset, ":file")); ok {
					if _, mediaType, ok := page.Asset(file); !ok || mediaType == "" {
						t.Errorf("there is no asset %q", file)
					}
				}
			}
			if class, _ := attribute(n, "class"); class == "more" && n.FirstChild.Data != "a" && !strings.HasSuffix(n.FirstChild.Data, "faster") {
				t.Errorf("%q leads nowhere", n.FirstChild.Data)
			}
			if target, ok := attribute(n, "href"); ok && strings.HasPrefix(target, "#") && n.Data == "a" && target != "#main" {
				t.Errorf("%q leads nowhere", target)
			}
		})
	})
}

// A page that nothing has changed is the same, so that its digest says so.
func TestAFragmentDoesNotDependOnTheTime(t *testing.T) {
	everyPage(t, func(t *testing.T, w pagetest.World, path string) {
		u, _ := url.Parse(path)
		v := w.View(u)
		if v == nil || path == page.PathSignIn {
			return
		}
		var at [2]bytes.Buffer
		for i := range at {
			f := pagetest.Frame(u)
			f.Fragment, f.Now = true, pagetest.Now.AddDate(0, i*3, 0)
			if err := page.Write(&at[i], f, v); err != nil {
				t.Fatal(err)
			}
		}
		if at[0].String() != at[1].String() {
			t.Error("another time makes another fragment")
		}
		elements(t, written(t, w, path, false), func(n *html.Node) {
			if tag, ok := attribute(n, "data-etag"); ok && tag != page.ETag(at[0].Bytes()) {
				t.Errorf("the page has the tag %s of another fragment", tag)
			}
		})
		if at[0].Len() == 0 || strings.Contains(at[0].String(), "<html") {
			t.Errorf("a fragment of %d bytes", at[0].Len())
		}
	})
}

// What a person with a screen reader has to know of a page.
func TestPagesAreAccessible(t *testing.T) {
	everyPage(t, func(t *testing.T, w pagetest.World, path string) {
		count, ids, labelled := map[string]int{}, map[string]int{}, []string{}
		elements(t, written(t, w, path, false), func(n *html.Node) {
			count[n.Data]++
			if id, ok := attribute(n, "id"); ok {
				ids[id]++
			}
			if by, ok := attribute(n, "aria-labelledby"); ok {
				labelled = append(labelled, by)
			}
			switch n.Data {
			case "th":
				if scope, _ := attribute(n, "scope"); scope == "" {
					t.Error("a heading of a table without a scope")
				}
			case "svg":
				if hidden, _ := attribute(n, "aria-hidden"); hidden != "true" {
					t.Error("a picture that is read out")
				}
			case "label":
				if of, ok := attribute(n, "for"); ok {
					labelled = append(labelled, of)
				}
			case "input", "select":
				kind, _ := attribute(n, "type")
				id, _ := attribute(n, "id")
				if _, hidden := attribute(n, "hidden"); n.Parent.Data != "label" && !hidden && kind != "hidden" && !slices.Contains(labelled, id) {
					t.Error("a field without a label")
				}
			}
		})
		for _, once := range []string{"h1", "main", "title"} {
			if count[once] != 1 {
				t.Errorf("%d elements %s", count[once], once)
			}
		}
		for id, n := range ids {
			if n > 1 {
				t.Errorf("%d elements have the id %s", n, id)
			}
		}
		for _, id := range labelled {
			if ids[id] != 1 {
				t.Errorf("no element has the id %s", id)
			}
		}
	})
}

// textOf is what a page says.
func textOf(t testing.TB, text string) string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for n := range root.Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
	}
	return b.String()
}

// spacedTextOf is what a page says, with spaces between its elements.
func spacedTextOf(t testing.TB, text string) string {
	t.Helper()
	return textOf(t, strings.ReplaceAll(text, "<", " <"))
}

// Each reason is shown with what it means and what to do.
func TestEveryReasonIsExplained(t *testing.T) {
	for reason, doc := range api.Reasons {
		n := pagetest.First().Nodes[0]
		n.Status.Conditions = []api.Condition{{Type: api.ConditionVolumesMounted, Status: api.ConditionFalse, Reason: reason, LastTransitionTime: pagetest.Now}}
		got := textOf(t, written(t, pagetest.World{Nodes: []api.Node{n}}, page.PathNodes+"/"+n.ID, true))
		for _, want := range []string{reason, strings.ReplaceAll(doc.Meaning, "`", ""), strings.ReplaceAll(doc.Action, "`", "")} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: does not say %q", reason, want)
			}
		}
	}
}

// Each value of each enumeration is shown in words, with a symbol, wherever it comes up: a new one
// that the page does not know fails here.
func TestEveryStateIsShown(t *testing.T) {
	w := pagetest.First()
	shows := func(what string, w pagetest.World, path, state string) {
		t.Helper()
		found := false
		elements(t, written(t, w, path, true), func(n *html.Node) {
			if class, _ := attribute(n, "class"); strings.HasPrefix(class, "badge ") {
				text := ""
				for d := range n.Descendants() {
					if d.Type == html.TextNode {
						text += d.Data
					}
				}
				found = found || text == state && n.FirstChild.Data == "svg"
			}
		})
		if !found {
			t.Errorf("%s %s is not shown", what, state)
		}
	}
	for state := range values[api.NodeState](t, "NodeState") {
		n := w.Nodes[0]
		n.State = state
		world := pagetest.World{Nodes: []api.Node{n}}
		shows("node", world, page.PathNodes+"/"+n.ID, string(state))
		if counts := textOf(t, written(t, world, page.PathOverview, true)); !strings.Contains(counts, "1Not ready") && !strings.Contains(counts, "1"+string(state)) {
			t.Errorf("the overview does not count a node that is %s", state)
		}
		offers(t, world, page.PathNodes, "state", string(state))
	}
	for role := range values[api.Role](t, "Role") {
		offers(t, w, page.PathNodes, "role", string(role))
	}
	for status := range values[api.ConditionStatus](t, "ConditionStatus") {
		n := w.Nodes[0]
		n.Status.Conditions = []api.Condition{{Type: api.ConditionReady, Status: status}}
		shows("condition", pagetest.World{Nodes: []api.Node{n}}, page.PathNodes+"/"+n.ID, string(status))
	}
	for state := range values[api.OperationState](t, "OperationState") {
		o := w.Operations[0]
		o.State = state
		world, said := pagetest.World{Operations: []api.Operation{o}}, describe.OperationProgress(o, nil)
		shows("operation", world, page.PathOperations, said)
		shows("operation", world, page.PathOperations+"/"+o.ID, said)
		offers(t, w, page.PathOperations, "state", string(state))
	}
	for kind := range values[api.OperationType](t, "OperationType") {
		offers(t, w, page.PathOperations, "operation", string(kind))
	}
	for state := range values[api.InstanceState](t, "InstanceState") {
		i := w.Instances[0]
		i.State = state
		shows("instance", pagetest.World{Instances: []api.Instance{i}}, page.PathInstances, string(state))
		offers(t, w, page.PathInstances, "state", string(state))
	}
	shows("stack", pagetest.Broken(), page.PathInstances, "UPDATE_FAILED")
	for kind := range values[api.VNFKind](t, "VNFKind") {
		offers(t, w, page.PathInstances, "kind", string(kind))
	}
	for state := range values[api.PermitState](t, "PermitState") {
		v := w.Volumes[0]
		v.PermitState = state
		shows("volume", pagetest.World{Volumes: []api.Volume{v}}, page.PathVolumes+"/"+v.ID, string(state))
		if text := textOf(t, written(t, pagetest.World{Volumes: []api.Volume{v}}, page.PathVolumes+"/"+v.ID, true)); strings.Contains(text, string(state)+"  ") {
			t.Errorf("nothing says what the permit %s means", state)
		}
		offers(t, w, page.PathVolumes, "permit", string(state))
	}
	for state := range values[api.RolloutState](t, "RolloutState") {
		shows("rollout", pagetest.World{Rollout: api.AgentRollout{State: state}}, page.PathOverview, string(state))
	}
	for state := range values[api.AgentState](t, "AgentState") {
		shows("agent", pagetest.World{Rollout: api.AgentRollout{Nodes: []api.AgentCount{{State: state, Nodes: 1}}}}, page.PathOverview, string(state))
	}
	for kind := range values[api.EventType](t, "EventType") {
		shows("event", pagetest.World{Events: []api.Event{{Type: kind, NodeID: "n"}}}, page.PathHistory, string(kind))
		offers(t, w, page.PathHistory, "type", string(kind))
	}
	for _, kind := range append(api.ConditionTypes(), api.ConditionReady) {
		n := w.Nodes[0]
		n.Status.Conditions = []api.Condition{{Type: kind, Status: api.ConditionTrue}}
		if text := textOf(t, written(t, pagetest.World{Nodes: []api.Node{n}}, page.PathNodes+"/"+n.ID, true)); !strings.Contains(text, kind) {
			t.Errorf("condition %s is not shown", kind)
		}
	}
}

// An operation is called the same in lists, in events and on its own page, which alone has the words of
// the API, once.
func TestAnOperationIsCalledTheSameEverywhere(t *testing.T) {
	w := pagetest.Broken()
	leaving, failed := w.Operations[0], w.Operations[1]
	for path, says := range map[string][]string{
		page.PathOverview:   {"Prepare to scale in, waiting for nodes to leave", "Failed Heal"},
		page.PathOperations: {"Prepare to scale in Waiting for nodes to leave", "Heal Failed", "Instantiate Completed", "Prepare to instantiate Completed"},
		page.PathInstances + "/" + leaving.VnfInstanceID: {"Prepare to scale in Waiting for nodes to leave"},
		page.PathOperations + "/" + failed.ID:            {"Heal Failed", "HEAL END FAILED", "Heal, PersistentVolumes: keep (token tacker)", "Failed: " + failed.Error.Detail[:20]},
		page.PathHistory:                                 {"Instantiate (token tacker)", "Heal, PersistentVolumes: keep (token tacker)", "and it read a nonce", "version 1 -> 2 (token tacker)", "by token alice 20"},
	} {
		text := strings.Join(strings.Fields(spacedTextOf(t, written(t, w, path, true))), " ")
		for _, want := range says {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q", path, want)
			}
		}
		if strings.Contains(text, "by token alice (token alice)") {
			t.Errorf("%s says twice by whom", path)
		}
		api := 0
		if path == page.PathOperations+"/"+failed.ID {
			api = 1
		}
		for _, word := range []string{"PROCESSING", "COMPLETED", "FAILED", "HEAL END", "SCALE_IN START", "INSTANTIATE START"} {
			if n := strings.Count(text, word); n > api {
				t.Errorf("%s says %s %d times", path, word, n)
			}
		}
	}
}

// The axis of a timeline ends at the last moment that is known. A step that is not over reaches beyond it
// and says for how long it has waited; if the operation is over, until then. A failure that waiting cannot
// fix is one.
func TestATimelineSaysHowLongAStepHasWaited(t *testing.T) {
	w := pagetest.Broken()
	failed := w.Operations[1]
	for path, want := range map[string]struct {
		w    pagetest.World
		says []string
	}{
		page.PathOperations + "/" + failed.ID: {w, []string{"the operation ended 30m after the start", "VolumesMounted False ForeignData for 30m "}},
		page.PathOperations + "/" + pagetest.First().Operations[0].ID: {pagetest.First(), []string{"the last step that is over ended 52s after the start",
			"ExportsServed False NotMounted for 38s ", "RegistriesConnected False Converging for 24s ", "a hatched step is not over"}},
		page.PathOperations + "/" + pagetest.Fleet(100).Operations[0].ID: {pagetest.Fleet(100), []string{"; the last step that is over ended 67s after the start; the slowest first c00"}},
	} {
		text := written(t, want.w, path, false)
		said := strings.Join(strings.Fields(spacedTextOf(t, text)), " ")
		for _, want := range want.says {
			if !strings.Contains(said, want) {
				t.Errorf("%s does not say %q: %s", path, want, said)
			}
		}
		elements(t, text, func(n *html.Node) {
			class, _ := attribute(n, "class")
			x, _ := attribute(n, "x")
			width, _ := attribute(n, "width")
			end := percentOf(t, x) + percentOf(t, width)
			if class == "over" && strings.Contains(said, "hatched") && end > 85.1 || strings.HasPrefix(class, "pending") && end < 99.9 {
				t.Errorf("%s: a bar that is %s ends at %.0f %%", path, class, end)
			}
			if strings.HasPrefix(class, "pending") && (class == "pending bad") != (strings.Contains(path, failed.ID)) {
				t.Errorf("%s has a bar that is %s", path, class)
			}
		})
	}
}

// percentOf is the number of a share, 0 of anything else.
func percentOf(t *testing.T, share string) (n float64) {
	t.Helper()
	if number, ok := strings.CutSuffix(share, "%"); ok {
		if _, err := fmt.Sscan(number, &n); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// offers fails unless a list can be filtered by the value.
func offers(t *testing.T, w pagetest.World, path, name, value string) {
	t.Helper()
	offered := false
	elements(t, written(t, w, path, false), func(n *html.Node) {
		if v, _ := attribute(n, "value"); n.Data == "option" && v == value {
			of, _ := attribute(n.Parent, "name")
			offered = offered || of == name
		}
	})
	if !offered {
		t.Errorf("%s cannot be filtered by %s %s", path, name, value)
	}
}

func TestListsAreFilteredAndDivided(t *testing.T) {
	w := pagetest.Fleet(2000)
	for path, want := range map[string]string{
		page.PathNodes:                                           "1 to 200 of 2000",
		page.PathNodes + "?page=10":                              "1801 to 2000 of 2000",
		page.PathNodes + "?page=11":                              "1801 to 2000 of 2000",
		page.PathNodes + "?page=-1":                              "1 to 200 of 2000",
		page.PathNodes + "?state=Lost":                           "1 to 6 of 6 that fit, of 2000 in all",
		page.PathNodes + "?state=Lost&ready=True":                "None that fit, of 2000 in all",
		page.PathNodes + "?role=storage":                         "1 to 40 of 40 that fit, of 2000 in all",
		page.PathNodes + "?text=c07-":                            "1 to 50 of 50 that fit, of 2000 in all",
		page.PathNodes + "?text=unreachable":                     fmt.Sprintf("1 to %d of %d that fit", 20, 20),
		page.PathNodes + "?instance=" + w.Instances[3].ID:        "1 to 50 of 50 that fit",
		page.PathNodes + "?instance=Site+03":                     "1 to 50 of 50 that fit",
		page.PathVolumes + "?instance=site+03":                   "site 03 (",
		page.PathInstances + "?text=site+03":                     "site 03 (",
		page.PathOperations + "?instance=site+03":                "site 03 (",
		page.PathOperations + "?state=PROCESSING":                "1 to 1 of 1 that fit, of 40 in all",
		page.PathVolumes + "?permit=Interrupted":                 "None that fit, of 40 in all",
		page.PathInstances + "?text=c39-storage":                 "1 to 1 of 1 that fit, of 40 in all",
		page.PathHistory + "?type=Enrolled":                      "1 to 50 of 50 that fit, of 151 in all",
		page.PathHistory + "?node=C00-worker-2":                  "1 to 30 of 30\n",
		page.PathHistory + "?node=" + w.Nodes[7].ID[:20]:         "1 to 3 of 3\n",
		page.PathHistory + "?instance=" + w.Instances[1].ID[:20]: "No event fits",
	} {
		text := textOf(t, written(t, w, path, true))
		if !strings.Contains(text, want) {
			t.Errorf("%s says %q, expected %q", path, text[:min(60, len(text))], want)
		}
	}
	first := pagetest.First()
	for query, want := range map[string]string{"?volume=storage_server_vol": "1 to 1 of 1\n", "?node=storage": "Formatted", "": "2026-11-25 14:28:58 (74s ago)"} {
		if text := textOf(t, written(t, first, page.PathHistory+query, false)); !strings.Contains(text, want) {
			t.Errorf("the history %s does not say %q", query, want)
		}
	}
	// The pages of a filtered list are of that list, and each node is on one of them.
	seen := map[string]bool{}
	next := page.PathNodes + "?role=worker"
	for pages := 0; next != ""; pages++ {
		at := next
		next = ""
		elements(t, written(t, w, at, true), func(n *html.Node) {
			if rel, _ := attribute(n, "rel"); rel == "next" {
				next, _ = attribute(n, "href")
			}
			if scope, _ := attribute(n, "scope"); scope == "row" {
				id, _ := attribute(n.FirstChild, "href")
				if seen[id] {
					t.Errorf("%s is on two pages", id)
				}
				seen[id] = true
			}
		})
		if pages > 20 {
			t.Fatal("the pages do not end")
		}
	}
	if len(seen) != 2000-40*4 {
		t.Errorf("%d nodes on all pages", len(seen))
	}
}

// An empty controller shows how to begin, and speaks of a filter only where there is one.
func TestAnEmptyFleetSaysHowToBegin(t *testing.T) {
	lines := func(w pagetest.World, path string) (list []string) {
		elements(t, written(t, w, path, true), func(n *html.Node) {
			if line, ok := attribute(n, "data-copy"); ok {
				list = append(list, line)
			}
		})
		return list
	}
	empty := pagetest.Empty()
	want := []string{"hitchctl apply INSTANCE -f REQUEST.json --package DIRECTORY", "hitchctl render user-data INSTANCE --file user-data.yaml",
		"hitchctl render hot ./templates", "hitchctl operate INSTANCE INSTANTIATE --topology TOPOLOGY.json --wait"}
	for _, path := range []string{page.PathOverview, page.PathInstances} {
		if got := lines(empty, path); !slices.Equal(got, want) {
			t.Errorf("%s has the commands %q, expected %q", path, got, want)
		}
	}
	steps := regexp.MustCompile(`\b\d\. `).FindAllString(textOf(t, written(t, empty, page.PathOverview, true)), -1)
	if !slices.Equal(steps, []string{"1. ", "2. ", "3. "}) {
		t.Errorf("the first steps have the numbers %q", steps)
	}
	if text := textOf(t, written(t, empty, page.PathOverview, true)); strings.Contains(text, "Lost") || strings.Contains(text, "Earlier ones") {
		t.Errorf("the overview counts what is not there: %q", text)
	}
	if got := lines(pagetest.World{Instances: pagetest.First().Instances}, page.PathOverview); slices.Contains(got, want[1]) {
		t.Error("an instance is there, and the overview says how to make the first one")
	}
	for path, noun := range map[string]string{page.PathNodes: "node", page.PathInstances: "instance", page.PathOperations: "operation", page.PathVolumes: "volume", page.PathHistory: "event"} {
		for query, says := range map[string]string{"": "No " + noun + " yet.", "?page=2": "No " + noun + " yet.", "?text=nothing-has-this": "No " + noun + " fits."} {
			if text := textOf(t, written(t, empty, path+query, true)); !strings.Contains(text, says) || strings.Contains(text, "None") {
				t.Errorf("%s says %q, expected %q", path+query, strings.TrimSpace(text), says)
			}
		}
		if text := textOf(t, written(t, pagetest.First(), path+"?text=nothing-has-this", true)); !strings.Contains(text, "No "+noun+" fits.") {
			t.Errorf("%s does not say that none fits: %q", path, text)
		}
	}
}

// What is decided by an operator is on the overview, with the line to decide it by.
func TestTheOverviewHasWhatMustBeDecided(t *testing.T) {
	w := pagetest.Broken()
	lines := map[string]bool{}
	text := written(t, w, page.PathOverview, true)
	elements(t, text, func(n *html.Node) {
		if line, ok := attribute(n, "data-copy"); ok {
			lines[line] = true
		}
	})
	interrupted := slices.IndexFunc(w.Volumes, func(v api.Volume) bool { return v.PermitState == api.PermitInterrupted && !v.ReformatRequested })
	foreign := slices.IndexFunc(w.Volumes, func(v api.Volume) bool { return v.PermitState == api.PermitNone && !v.Unconfirmed })
	for _, want := range []string{
		"hitchctl confirm instance " + w.Instances[1].ID,
		"hitchctl volume reformat " + w.Volumes[interrupted].ID,
		"hitchctl volume adopt " + w.Volumes[interrupted].ID + " --filesystem-uuid " + w.Volumes[interrupted].FilesystemUUID,
		"hitchctl volume reformat " + w.Volumes[foreign].ID,
		"hitchctl volume adopt " + w.Volumes[foreign].ID + " --filesystem-uuid 1f0c1b1e-5f0e-4a53-a7d6-0c6f5f1f6f52",
		"hitchctl agents upgrade",
		"hitchctl apply " + w.Instances[0].ID + " -f REQUEST.json --package DIRECTORY",
	} {
		if !lines[want] {
			t.Errorf("the overview has no line %q", want)
		}
	}
	for _, v := range w.Volumes {
		if v.ReformatRequested && strings.Contains(text, "hitchctl volume reformat "+v.ID) {
			t.Errorf("volume %s was decided about already", v.ID)
		}
	}
	said := strings.Join(strings.Fields(spacedTextOf(t, text)), " ")
	somebodyGivesWay := []api.Reason{api.ReasonInUse, api.ReasonEvictionBlocked, api.ReasonUnmanagedPods, api.ReasonStuckTerminating}
	for reason, doc := range api.Reasons {
		if (doc.Final || slices.Contains(somebodyGivesWay, reason)) && reason != api.ReasonFormatInterrupted && !strings.Contains(said, reason) && slices.ContainsFunc(w.Nodes, func(n api.Node) bool {
			c := n.Status.Condition(api.ConditionReady)
			return c != nil && n.State != api.NodeRevoked && slices.ContainsFunc(n.Status.Conditions, func(c api.Condition) bool { return c.Reason == reason })
		}) {
			t.Errorf("the overview does not say %s", reason)
		}
	}
	for _, want := range []string{"Lost", "Failed Heal"} {
		if !strings.Contains(said, want) {
			t.Errorf("the overview does not say %s", want)
		}
	}
	if strings.Contains(text, "--filesystem-uuid UUID") {
		t.Error("a command lacks the UUID that it needs")
	}
	if calm := textOf(t, written(t, pagetest.First(), page.PathOverview, true)); !strings.Contains(calm, "Nothing waits for your decision") {
		t.Error("a first cluster waits for a decision")
	}
}

// No secret that a request could hold is in the samples, and the page shows no parameter but what
// it knows: it must not show additionalParams as they are.
// What somebody wrote or a cloud says is shown, and does nothing.
func TestTextsOfOthersDoNothing(t *testing.T) {
	w := pagetest.Fleet(60)
	for i := range w.Nodes {
		w.Nodes[i].Name = "n\u202e\x1b[2J" + w.Nodes[i].Name
	}
	for _, path := range []string{page.PathNodes, page.PathOverview, page.PathNodes + "/" + w.Nodes[0].ID} {
		for _, fragment := range []bool{true, false} {
			if text := written(t, w, path, fragment); plain.Text(text) != text || path == page.PathNodes && !strings.Contains(text, "n??[2J") {
				t.Errorf("%s does not show the name, or shows it as it is", path)
			}
		}
	}
}

func TestParametersAreNotShown(t *testing.T) {
	everyPage(t, func(t *testing.T, w pagetest.World, path string) {
		if text := written(t, w, path, false); strings.Contains(text, "ssh_password") || strings.Contains(text, "[redacted]") {
			t.Error("shows parameters")
		}
	})
}

// What a page of 2,000 nodes costs is bounded.
func TestTheCostOfAPageIsBounded(t *testing.T) {
	w := pagetest.Fleet(2000)
	for path, most := range map[string]int{page.PathOverview: 260 << 10, page.PathNodes: 200 << 10, page.PathInstances + "/" + w.Instances[0].ID: 120 << 10} {
		if n := len(written(t, w, path, true)); n > most {
			t.Errorf("%s has %d bytes", path, n)
		}
	}
	nodes := testing.AllocsPerRun(3, func() { written(t, w, page.PathNodes, true) })
	twice := testing.AllocsPerRun(3, func() { written(t, pagetest.World{Nodes: append(w.Nodes, w.Nodes...)}, page.PathNodes, true) })
	t.Logf("a page of 200 of 2,000 nodes: %.0f allocations, of 4,000: %.0f", nodes, twice)
	if nodes > 60_000 || twice > nodes+20*2000 {
		t.Errorf("%.0f allocations for 2,000 nodes, %.0f for 4,000", nodes, twice)
	}
}

// Each node is a square on the overview: a link to it, named by it and its state.
func TestEachSquareIsALinkToItsNode(t *testing.T) {
	for _, w := range []pagetest.World{pagetest.First(), pagetest.Broken(), pagetest.Fleet(400)} {
		names, text := map[string]string{}, written(t, w, page.PathOverview, true)
		elements(t, text, func(n *html.Node) {
			if class, _ := attribute(n.Parent, "class"); class == "squares" {
				href, _ := attribute(n, "href")
				names[href], _ = attribute(n, "title")
			}
		})
		if len(names) != len(w.Nodes) {
			t.Errorf("%d squares of %d nodes", len(names), len(w.Nodes))
		}
		for _, n := range w.Nodes {
			state := string(n.State)
			if n.State == api.NodeEnrolled {
				state = map[describe.Tone]string{describe.Good: "Ready", describe.Bad: "Not ready", describe.Waiting: "Not ready yet", describe.Plain: "Not ready yet"}[describe.OfReady(n)]
			}
			if got, want := names[page.PathNodes+"/"+n.ID], n.Name+": "+state; got != want {
				t.Errorf("the square of %s is called %q, want %q", n.ID, got, want)
			}
		}
	}
}

// Lists have what is not Ready first. What is Ready has the class r, which a narrow window folds under its
// number. It is not folded in a list with a filter, and on later pages.
func TestHealthyNodesFold(t *testing.T) {
	w := pagetest.Fleet(300)
	ready := 0
	for _, n := range w.Nodes {
		if n.Ready {
			ready++
		}
	}
	for path, want := range map[string]string{
		page.PathOverview:                              fmt.Sprint(ready, " Ready"),
		page.PathNodes:                                 fmt.Sprint(ready-100, " Ready on this page"),
		page.PathNodes + "?page=2":                     "100 Ready on this page, open",
		page.PathNodes + "?ready=True":                 "200 Ready on this page, open",
		page.PathNodes + "?role=storage":               "6 Ready, open",
		page.PathNodes + "?ready=False":                "",
		page.PathInstances + "/" + w.Instances[1].ID:   "50 Ready",
		page.PathOperations + "/" + w.Operations[0].ID: "47 Ready",
		page.PathOperations + "/" + w.Operations[1].ID: "50 Ready",
	} {
		got, marked := "", 0
		elements(t, written(t, w, path, true), func(n *html.Node) {
			class, _ := attribute(n, "class")
			parent, _ := attribute(n.Parent, "class")
			switch _, open := attribute(n, "open"); {
			case class == "fold":
				got = n.FirstChild.FirstChild.Data
				if open {
					got += ", open"
				}
			case class == "r" && (n.Data == "tr" || parent == "targets" || parent == "squares"):
				marked++
			case n.Data == "tr" && n.Parent.Data == "tbody" && marked > 0 && strings.HasPrefix(path, page.PathNodes):
				t.Errorf("%s has a node that is not Ready after one that is", path)
			}
		})
		if got != want || want != "" && !strings.HasPrefix(want, fmt.Sprint(marked, " Ready")) {
			t.Errorf("%s folds %q and marks %d, want %q", path, got, marked, want)
		}
	}
}

// On the page of an instance, and of its nodes, no table has a column that repeats it.
func TestNoTableRepeatsItsPage(t *testing.T) {
	w := pagetest.Broken()
	foreign := w.Nodes[len(w.Nodes)-1]
	columns := func(path string) (n int) {
		elements(t, written(t, w, path, true), func(e *html.Node) {
			if label, _ := attribute(e, "data-label"); label == "Instance" || e.Data == "th" && e.FirstChild != nil && e.FirstChild.Data == "Instance" {
				n++
			}
		})
		return n
	}
	for path, want := range map[string]int{page.PathNodes: 1 + len(w.Nodes), page.PathOperations: 1 + len(w.Operations), page.PathVolumes: 1 + len(w.Volumes),
		page.PathInstances + "/" + w.Instances[0].ID: 0, page.PathNodes + "/" + foreign.ID: 0} {
		if got := columns(path); got != want {
			t.Errorf("%s has %d headings and cells of the column Instance, want %d", path, got, want)
		}
	}
	for i := range w.Volumes {
		w.Volumes[i].VnfInstanceID = w.Instances[1].ID
	}
	if columns(page.PathNodes+"/"+foreign.ID) == 0 {
		t.Error("a node does not say that a volume is another instance's")
	}
}

// Each page says once in which zone its times are, and has them all in that one.
func TestTimesHaveOneZone(t *testing.T) {
	zoned := regexp.MustCompile(`\d:\d\d(:\d\d)?(Z| ?[+-]\d\d:?\d\d|[ ]?[A-Z]{3,4}\b)`)
	everyPage(t, func(t *testing.T, w pagetest.World, path string) {
		text := textOf(t, written(t, w, path, false))
		if n := strings.Count(text, "UTC"); n != 1 && path != page.PathSignIn {
			t.Errorf("it says its zone %d times", n)
		}
		if other := zoned.FindString(text); other != "" {
			t.Errorf("a time has a zone of its own: %s", other)
		}
	})
}

// BenchmarkOverview is the overview with as many nodes as it draws.
func BenchmarkOverview(b *testing.B) {
	w, n := pagetest.Fleet(4000), 0
	for b.Loop() {
		n = len(written(b, w, page.PathOverview, true))
	}
	b.ReportMetric(float64(n)/1024, "KiB")
}

// The overview marks who writes and says what is wrong with a follower; a controller with a store of its
// own has no such part.
func TestTheOverviewShowsTheReplicas(t *testing.T) {
	of := func(w pagetest.World) string {
		var text strings.Builder
		elements(t, written(t, w, page.PathOverview, false), func(n *html.Node) {
			if by, _ := attribute(n, "aria-labelledby"); by != "h-replicas" {
				return
			}
			for child := range n.Descendants() {
				if child.Type == html.TextNode {
					text.WriteString(child.Data + " ")
				}
			}
		})
		return strings.Join(strings.Fields(text.String()), " ")
	}
	if got, want := of(pagetest.Fleet(100)), "Controllers 3 share the store controller-a Follower v1.0.0 controller-b Leader for 3h , term 48113, v1.0.0 controller-c Follower v1.0.0"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if text := written(t, pagetest.Empty(), page.PathOverview, false); !strings.Contains(text, "sse:"+page.ChangedReplicas) {
		t.Error("it does not follow what becomes of them")
	}
	if got := of(pagetest.Broken()); !strings.Contains(got, "controller-c Follower v1.0.0 it does not answer the leader controller-d") {
		t.Error(got)
	}
	if got := of(pagetest.Empty()); got != "" {
		t.Errorf("a controller with a store of its own: %s", got)
	}
}

// A table of an instance that is cut says how much it leaves out.
func TestWhatAnInstanceLeavesOutIsSaid(t *testing.T) {
	w := pagetest.First()
	i := &w.Instances[0]
	for n := range 203 {
		i.Topology.Servers = append(i.Topology.Servers, api.Server{ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), Name: fmt.Sprint("more-", n), VnfcInstanceID: fmt.Sprint("vnfc-", n)})
	}
	named := 0
	for _, s := range i.Topology.Servers {
		if s.VnfcInstanceID != "" || s.MemberStackID != "" || s.AvailabilityZone != "" || s.HypervisorHostname != "" {
			named++
		}
	}
	w.Events = nil
	for n := range 12 {
		w.Events = append(w.Events, api.Event{Sequence: int64(n + 1), At: pagetest.Now, Type: api.HappenedDesiredStateChanged, VnfInstanceID: i.ID, To: fmt.Sprint(n + 1)})
	}
	got := written(t, w, page.PathInstances+"/"+i.ID, true)
	for _, want := range []string{fmt.Sprintf(">and %d more</a>", named-200), ">and 2 before</a>"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// said is what a world says at a path, in one line.
func said(t testing.TB, w pagetest.World, path string) string {
	t.Helper()
	return strings.Join(strings.Fields(spacedTextOf(t, written(t, w, path, false))), " ")
}

// says fails unless the page at a path has the texts, and none of the others.
func says(t *testing.T, w pagetest.World, path string, has, hasNot []string) {
	t.Helper()
	text := said(t, w, path)
	for _, want := range has {
		if !strings.Contains(text, want) {
			t.Errorf("%s does not say %q: %s", path, want, text)
		}
	}
	for _, never := range hasNot {
		if strings.Contains(text, never) {
			t.Errorf("%s says %q: %s", path, never, text)
		}
	}
}

// A volume is shown with what its node has found on it. One that was never formatted has no filesystem of
// nodehitch's.
func TestAVolumeSaysWhatItsNodeHasFound(t *testing.T) {
	w := pagetest.Broken()
	at := func(fits func(api.Volume) bool) api.Volume { return w.Volumes[slices.IndexFunc(w.Volumes, fits)] }
	foreign := at(func(v api.Volume) bool { return v.PermitState == api.PermitNone && !v.Unconfirmed })
	formatted := at(func(v api.Volume) bool { return v.PermitState == api.PermitFormatted })
	finding := "ForeignData: volume " + foreign.ID + ": /dev/disk/by-id"
	says(t, w, page.PathVolumes, []string{finding}, nil)
	says(t, w, page.PathInstances+"/"+foreign.VnfInstanceID, []string{finding}, nil)
	says(t, w, page.PathNodes+"/"+foreign.NodeID, []string{finding}, nil)
	says(t, w, page.PathVolumes+"/"+foreign.ID, []string{"For you to decide: what its node has found Stopped ForeignData storage_server_of", "volume " + foreign.ID + ": /dev/disk/by-id",
		"Meaning the disk holds data that nodehitch did not write", "UUID that a format would give " + foreign.FilesystemUUID}, []string{"Filesystem ext4"})
	says(t, w, page.PathVolumes+"/"+formatted.ID, []string{"Filesystem ext4, UUID " + formatted.FilesystemUUID}, []string{"would give", "has found"})
	w.Volumes[slices.IndexFunc(w.Volumes, func(v api.Volume) bool { return v.ID == foreign.ID })].ReformatRequested = true
	says(t, w, page.PathVolumes, nil, []string{finding})
	says(t, w, page.PathVolumes+"/"+foreign.ID, []string{"What its node has found"}, []string{"For you to decide"})
}

// The list of volumes names the exception to its promise, and has the same text for a restored
// volume as the volume's own page.
func TestVolumesSayWhatIsFormatted(t *testing.T) {
	w := pagetest.Broken()
	restored := w.Volumes[slices.IndexFunc(w.Volumes, func(v api.Volume) bool { return v.Unconfirmed })]
	meaning := "no format before hitchctl volume reformat"
	says(t, w, page.PathVolumes, []string{"never formatted, unless an operator says hitchctl volume reformat .", "None, unconfirmed registry_volume"}, nil)
	for _, path := range []string{page.PathVolumes + "?text=registry_volume", page.PathVolumes + "/" + restored.ID} {
		says(t, w, path, []string{meaning}, []string{"blank check"})
	}
}

// green are the texts of the badges of a page that are good news, and of the bars that have something done.
func green(t *testing.T, w pagetest.World, path string) (list []string) {
	t.Helper()
	elements(t, written(t, w, path, true), func(n *html.Node) {
		switch class, _ := attribute(n, "class"); class {
		case "badge good":
			list = append(list, n.LastChild.Data)
		case "done":
			if width, _ := attribute(n, "width"); percentOf(t, width) > 0 {
				list = append(list, "bar "+width)
			}
		}
	})
	return list
}

// A node counts as connected to the registries while it is in contact.
func TestOnlyNodesInContactAreConnected(t *testing.T) {
	w := pagetest.First()
	for i := range w.Nodes {
		w.Nodes[i].Status.Activity = nil
		for k := range w.Nodes[i].Status.Conditions {
			w.Nodes[i].Status.Conditions[k].Status = api.ConditionTrue
		}
	}
	says(t, w, page.PathRegistries, []string{"2 of 2 nodes connected"}, []string{"not known"})
	w.Nodes[2].State = api.NodeLost
	says(t, w, page.PathRegistries, []string{"1 of 2 nodes connected", "worker1 not known: lost it has not called for three poll intervals"}, nil)
	w.Nodes[2].State = api.NodeRevoked
	says(t, w, page.PathRegistries, []string{"1 of 1 nodes connected"}, nil)
}

// What a restore brought back was true before it, and is no good news.
func TestARestoredInstanceIsAsLastReported(t *testing.T) {
	w := pagetest.Broken()
	restored, registry := w.Instances[1], w.Nodes[3]
	before := ", as last reported, before the restore"
	w = pagetest.World{Instances: []api.Instance{restored}, Nodes: []api.Node{registry}}
	for path, want := range map[string][]string{
		page.PathOverview:                      {"1 of 1 Ready" + before, "0 in contact"},
		page.PathInstances:                     {"1/1" + before},
		page.PathInstances + "/" + restored.ID: {"1 of 1 nodes Ready" + before, "1 of 1" + before, "Ready" + before},
		page.PathNodes + "/" + registry.ID:     {"Ready" + before},
		page.PathRegistries:                    {"Running" + before},
	} {
		says(t, w, path, want, nil)
		if of := green(t, w, path); slices.ContainsFunc(of, func(text string) bool {
			return text != "Ready" && text != "There" && !strings.HasSuffix(text, "COMPLETE")
		}) || path != page.PathOverview && slices.Contains(of, "Ready") {
			t.Errorf("%s has good news: %q", path, of)
		}
	}
}

// How many nodes of an instance are Ready, and of how many, is the same everywhere.
func TestAnInstanceCountsItsNodesTheSameEverywhere(t *testing.T) {
	w := pagetest.Broken()
	cluster, all, ready := w.Instances[0], 0, 0
	w.Nodes[1].Ready = true
	for _, n := range w.Nodes {
		if n.VnfInstanceID == cluster.ID && n.State != api.NodeRevoked {
			all++
			if n.Ready {
				ready++
			}
		}
	}
	count := fmt.Sprintf("%d of %d", ready, all)
	says(t, w, page.PathInstances, []string{strings.ReplaceAll(count, " of ", "/")}, nil)
	says(t, w, page.PathInstances+"/"+cluster.ID, []string{count + " nodes Ready"}, nil)
	says(t, w, page.PathOverview, []string{count + " Ready"}, nil)
}

// The word of an instance's life cycle says nothing of its nodes; an operation in progress is named beside
// it, and is what the page offers to wait for.
func TestAnInstanceNamesTheOperationAtWork(t *testing.T) {
	w := pagetest.First()
	path := page.PathInstances + "/" + w.Instances[0].ID
	says(t, w, path, []string{"NOT_INSTANTIATED Instantiate, waiting for nodes KubernetesCluster", "hitchctl wait operation " + w.Operations[0].ID}, []string{"operate"})
	says(t, w, page.PathInstances, []string{"NOT_INSTANTIATED Instantiate, waiting for nodes 0/3"}, nil)
	w.Instances[0].State, w.Operations[0].State = api.Instantiated, api.Completed
	says(t, w, path, nil, []string{"waiting for nodes KubernetesCluster", "hitchctl wait operation"})
	says(t, w, page.PathInstances, nil, []string{"waiting for nodes"})
	for _, path := range []string{page.PathInstances, path} {
		if of := green(t, w, path); slices.Contains(of, string(api.Instantiated)) {
			t.Errorf("%s calls an instance good whose nodes are not Ready: %q", path, of)
		}
	}
}

// A command that destroys is marked, and stands after all that do not.
func TestCommandsThatDestroyAreMarked(t *testing.T) {
	destroyed := map[string]bool{}
	everyPage(t, func(t *testing.T, w pagetest.World, path string) {
		elements(t, written(t, w, path, true), func(n *html.Node) {
			if class, _ := attribute(n, "class"); class != "commands" {
				return
			}
			last := ""
			for c := range n.Descendants() {
				line, ok := attribute(c, "data-copy")
				if !ok {
					continue
				}
				item := c.Parent.Parent
				class, _ := attribute(item, "class")
				kind := regexp.MustCompile(`volume reformat|node revoke|TERMINATE| delete `).FindString(line)
				if destroyed[kind] = true; kind == "" && last != "" {
					t.Errorf("%q stands after %q", line, last)
				}
				if (kind != "") != (class == "destroys") {
					t.Errorf("%q has the class %q", line, class)
				}
				last = kind
			}
		})
	})
	for _, kind := range []string{"volume reformat", "node revoke", "TERMINATE"} {
		if !destroyed[kind] {
			t.Errorf("no page has a command %s", kind)
		}
	}
}

// What must be decided stands in the order of what is at stake: disks, failed operations, lost nodes,
// and then reasons by how many nodes have them.
func TestDecisionsAreOrderedByWhatIsAtStake(t *testing.T) {
	w := pagetest.Broken()
	for n := range 3 {
		other := w.Nodes[len(w.Nodes)-1]
		other.ID, other.Status = fmt.Sprintf("%s-%d", other.ID, n), &api.NodeStatus{Conditions: []api.Condition{{Type: api.ConditionRegistriesConnected, Status: api.ConditionFalse, Reason: api.ReasonUnauthorized}}}
		w.Nodes = append(w.Nodes, other)
	}
	var titles []string
	elements(t, written(t, w, page.PathOverview, true), func(n *html.Node) {
		if n.Data == "strong" && n.Parent.Data == "p" {
			if class, _ := attribute(n.Parent, "class"); class == "title" {
				titles = append(titles, n.FirstChild.Data)
			}
		}
	})
	want := []string{"A format was interrupted", "Restored as not formatted", api.ReasonForeignData, "Restored from a backup, not confirmed", "Heal", "No longer calling", api.ReasonUnauthorized}
	if !slices.Equal(titles[:len(want)], want) {
		t.Errorf("%q, want %q first", titles, want)
	}
}

// What one node says is on the card about it; where several say it, their pages have it.
func TestADecisionAboutOneNodeHasItsMessage(t *testing.T) {
	w := pagetest.First()
	rejected := []api.Condition{{Type: api.ConditionPersistentVolumesRegistered, Status: api.ConditionFalse, Reason: api.ReasonManifestRejected, Message: "pv.yaml has a field capacty"}}
	w.Nodes[1].Status.Conditions = rejected
	says(t, w, page.PathOverview, []string{"ManifestRejected master1 pv.yaml has a field capacty Meaning"}, nil)
	w.Nodes[2].Status.Conditions = rejected
	says(t, w, page.PathOverview, []string{"ManifestRejected master1 , worker1 Meaning"}, nil)
}

// Lists of nodes have those first that wait for somebody.
func TestNodesAreOrderedByTheirTrouble(t *testing.T) {
	w := pagetest.First()
	of := func(name string, state api.NodeState, reason api.Reason) api.Node {
		n := w.Nodes[0]
		n.ID, n.Name, n.State, n.Ready = name, name, state, reason == api.ReasonReady
		n.Status = &api.NodeStatus{Conditions: []api.Condition{{Type: api.ConditionVolumesMounted, Status: api.ConditionFalse, Reason: reason}}}
		return n
	}
	w.Nodes = []api.Node{of("ready", api.NodeEnrolled, api.ReasonReady), of("revoked", api.NodeRevoked, api.ReasonForeignData), of("expected", api.NodeExpected, ""),
		of("on-the-way", api.NodeEnrolled, api.ReasonWaitingForDevice), of("failing", api.NodeEnrolled, api.ReasonMountFailed), of("lost", api.NodeLost, api.ReasonMountFailed),
		of("stopped", api.NodeEnrolled, api.ReasonForeignData)}
	want := []string{"stopped", "lost", "failing", "on-the-way", "expected", "revoked", "ready"}
	for _, path := range []string{page.PathNodes, page.PathInstances + "/" + w.Instances[0].ID} {
		var got []string
		elements(t, written(t, w, path, true), func(n *html.Node) {
			if class, _ := attribute(n, "class"); n.Data == "th" && class == "long" {
				got = append(got, n.FirstChild.FirstChild.Data)
			}
		})
		if !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", path, got, want)
		}
	}
}

// A reason is as bad on the page of an operation as on that of its node, as a target, as what is withheld
// and as a bar.
func TestAReasonIsAsBadEverywhere(t *testing.T) {
	for reason, want := range map[api.Reason]string{api.ReasonWaitingForExports: "wait", api.ReasonUnreachable: "bad", api.ReasonFileMissing: "bad", api.ReasonForeignData: "bad"} {
		w := pagetest.First()
		n, o := &w.Nodes[1], &w.Operations[0]
		n.Status.Conditions = []api.Condition{{Type: api.ConditionRegistriesConnected, Status: api.ConditionFalse, Reason: reason}}
		n.Withheld = []api.Withheld{{Section: api.SectionRegistries, Reason: reason}}
		o.Targets, o.Withheld = []api.OperationTarget{{NodeID: n.ID, Name: n.Name, Reason: reason}}, n.Withheld
		w.Events = append(w.Events, api.Event{At: pagetest.Now, Type: api.HappenedConditionChanged, NodeID: n.ID, VnfInstanceID: n.VnfInstanceID, Condition: api.ConditionRegistriesConnected, To: "False", Reason: reason})
		for path, texts := range map[string][]string{page.PathNodes + "/" + n.ID: {"False", reason}, page.PathOperations + "/" + o.ID: {reason, reason, "False " + reason}} {
			var got []string
			elements(t, written(t, w, path, true), func(e *html.Node) {
				class, _ := attribute(e, "class")
				if mark, ok := strings.CutPrefix(class, "badge "); ok && slices.Contains(texts, e.LastChild.Data) {
					if got = append(got, e.LastChild.Data); mark != want {
						t.Errorf("%s: %s says %q as %s, want %s", reason, path, e.LastChild.Data, mark, want)
					}
				}
			})
			slices.Sort(got)
			if slices.Sort(texts); !slices.Equal(got, texts) {
				t.Errorf("%s: %s has the badges %q, want %q", reason, path, got, texts)
			}
		}
	}
}

// An operation that waits for members to leave says that of them, and a deadline in the past has passed.
func TestAnOperationSaysWhoHasLeftAndThatItsDeadlineHasPassed(t *testing.T) {
	w := pagetest.Broken()
	leaving := &w.Operations[0]
	at := page.PathOperations + "/" + leaving.ID
	for _, path := range []string{page.PathOverview, at} {
		says(t, w, path, []string{"0 of 1 has left", "deadline in 2m00s"}, []string{"0 of 1 targets Ready", "0 of 1 Ready"})
	}
	leaving.Deadline = pagetest.Now.Add(-5 * time.Minute)
	for _, path := range []string{page.PathOverview, at, page.PathOperations} {
		says(t, w, path, []string{"passed 5m00s ago"}, nil)
	}
	leaving.Leaving = append(leaving.Leaving, leaving.Leaving[0])
	says(t, w, at, []string{"not all of 2 have left"}, nil)
	leaving.Targets[0].Ready = true
	says(t, w, at, []string{"2 of 2 have left"}, nil)
}

// An address that nothing has is mistyped; one of an object may have been right.
func TestAMistypedAddressIsCalledSo(t *testing.T) {
	deleted := "may have been deleted"
	for _, path := range []string{page.PathOverview + "nodez", page.PathNodes + "/worker1", page.PathOperations + "/x/1", page.PathNodes + "/4a0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f2/more"} {
		says(t, pagetest.First(), path, []string{"404 There is no such page"}, []string{deleted, "there is no /ui"})
	}
	for _, path := range []string{page.PathNodes, page.PathVolumes, page.PathInstances} {
		says(t, pagetest.First(), path+"/4a0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f2", []string{deleted}, []string{"no such page"})
	}
	says(t, pagetest.First(), page.PathOperations+"/4a0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f2/3", []string{deleted}, nil)
}

// A cluster that nodehitch makes shows how far each machine is, what it does now, who holds the shared
// address, and which version it becomes.
func TestAClusterThatIsMadeShowsHowFarItIs(t *testing.T) {
	w := pagetest.Cluster()
	says(t, w, page.PathInstances+"/"+w.Instances[0].ID, []string{"Kubernetes 1.34.4, made by nodehitch", "join the cluster (kubeadm join)"}, nil)
	says(t, w, page.PathNodes+"/"+w.Nodes[0].ID, []string{
		"Enrolled done EngineReady done KubernetesInstalled done ClusterMember done ControlPlaneHealthy done PodNetworkReady NodeNotReady",
		"kubeadm and kubelet 1.34.4 are installed", "this master holds 10.10.0.9"}, nil)
	for _, path := range []string{page.PathOverview, page.PathOperations + "/" + w.Operations[0].ID} {
		says(t, w, path, []string{"master2 Converging", "Doing join the cluster (kubeadm join) (ClusterMember, for"}, nil)
	}
}
