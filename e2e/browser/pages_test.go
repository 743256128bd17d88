package browser

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/nodehitch/nodehitch/controller/ui/page/pagetest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/npm"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// links are the pages that the page leads to.
const links = `[...document.querySelectorAll('a[href^="/ui/"]')].map(a => a.getAttribute('href').split('#')[0])`

// crawl visits every page that a link leads to, from the first one on, and calls look on each: of the
// pages that differ in the query only, the first few. Unless all is true, and in the short form of the
// suite, it visits one page of each kind.
func (b *tab) crawl(all bool, look func(path string)) (visited []string) {
	b.t.Helper()
	next, queries := []string{"/ui/"}, map[string]int{}
	for len(next) > 0 {
		path := next[0]
		next = next[1:]
		page, query, _ := strings.Cut(path, "?")
		if slices.Contains(visited, path) || strings.HasPrefix(path, "/ui/assets/") || query != "" && queries[page] > 3 {
			continue
		}
		if kind := kindOf(path); !all && !results.Full() && slices.ContainsFunc(visited, func(other string) bool { return kindOf(other) == kind }) {
			continue
		}
		queries[page]++
		visited = append(visited, path)
		b.visit(path)
		look(path)
		next = append(next, value[[]string](b, links)...)
	}
	return visited
}

// kinds are how each page begins.
var kinds = []string{"/ui/", "/ui/instances", "/ui/instances/", "/ui/nodes", "/ui/nodes/", "/ui/operations", "/ui/operations/", "/ui/volumes", "/ui/volumes/", "/ui/registries", "/ui/history"}

// kindOf is the kind of a page.
func kindOf(path string) string {
	path, _, _ = strings.Cut(path, "?")
	if parts := strings.SplitAfterN(path, "/", 4); len(parts) == 4 {
		return strings.Join(parts[:3], "")
	}
	return path
}

// wants fails unless each kind of page is among the visited ones.
func wants(t testing.TB, visited []string) {
	t.Helper()
	for _, kind := range kinds {
		if !slices.ContainsFunc(visited, func(path string) bool { return kindOf(path) == kind }) {
			t.Errorf("no page of the kind %s was visited: %v", kind, visited)
		}
	}
}

// busy makes a controller with something on every page, and returns the secrets that were sent.
func (w *controller) busy() (secrets map[string]string) {
	w.t.Helper()
	w.fleet(3)
	secrets = map[string]string{
		"the password of a VM": "vm-Passw0rd", "the password of a proxy": "proxy-Passw0rd", "the password of a registry": "registry-Passw0rd",
		"the password of a VIM": "vim-Passw0rd", "a password with signs of HTML": `<b>"markup"&Passw0rd`,
	}
	cp := func(name string) map[string]any {
		return map[string]any{"ssh_cp_name": name, "nic_cp_name": name, "username": "ubuntu", "password": secrets["the password of a VM"]}
	}
	master, storage := cp("master_CP"), cp("storage_server_CP")
	master["cluster_cp_name"] = "master_CP"
	storage["cinder_volume_setup_params"] = []any{map[string]any{"volume_resource_id": "storage_server_volume", "mount_to": "/volume"}}
	storage["nfs_server_setup_params"] = []any{map[string]any{"export_dir": "/volume/nfs/pv1", "export_to": "10.10.0.0/24"}}
	params, err := json.Marshal(map[string]any{"k8s_cluster_installation_param": map[string]any{
		"script_path": "Scripts/install.sh", "master_node": master, "worker_node": cp("worker_CP"), "storage_server": storage,
		"proxy": map[string]any{"http_proxy": "http://user:" + secrets["the password of a proxy"] + "@proxy:3128"},
		"private_registry_connection_info": []any{
			map[string]any{"connection_type": 1, "server": "registry.example.com", "username": "user", "password": secrets["the password of a registry"]},
			map[string]any{"connection_type": 1, "server": "second.example.com", "username": "user", "password": secrets["a password with signs of HTML"]}},
	}})
	w.must(err)
	vim, err := json.Marshal([]any{map[string]any{"accessInfo": map[string]any{"password": secrets["the password of a VIM"]}}})
	w.must(err)
	instance, server, volume := id(2, 0), id(3, 0), id(4, 0)
	topology := loopback.StorageTopology(server, volume, 1<<30)
	_, err = client.Read[api.Instance](w.API.PutInstance(w.t.Context(), instance, nil, api.InstanceSpec{AdditionalParams: params, Topology: topology, VimConnectionInfo: vim}))
	w.must(err)
	_, err = client.Read[api.PackageFile](w.API.PutFileWithBody(w.t.Context(), instance, "Scripts/install.sh", nil, "application/octet-stream", strings.NewReader("#!/bin/sh\n# file-Passw0rd\n")))
	w.must(err)
	secrets["the content of a package file"] = "file-Passw0rd"
	secrets["a part of some password"] = "Passw0rd" // however it is written
	w.Operate(instance, api.OperationRequest{Operation: api.Instantiate})
	join := w.JoinToken(instance)
	_, secrets["the join token"], _ = strings.Cut(join, ".")
	m := w.machine(200)
	m.ServerID = server
	w.must(m.Enroll(w.t.Context(), join))
	w.must(w.report(m, "6.1.0-1"))
	_, err = m.Format(w.t.Context(), volume, api.FormatReport{Phase: api.FormatWanted, SizeBytes: 1 << 30, FilesystemUUID: api.FilesystemUUID(volume), BlankCheck: &api.BlankCheck{BytesRead: 1, Samples: 1}})
	w.must(err)
	return secrets
}

func TestNoSecretIsInAPage(t *testing.T) {
	c := results.Begin(t, "browser", "no secret in a page", "no password, join token, API token or file of any request is in any page, for a viewer and for an operator")
	w := newController(t)
	secrets := w.busy()
	viewer, operator := w.Token("alice", api.ScopeViewer), w.Token("olga", api.ScopeOperator)
	for name, token := range map[string]*api.NewToken{"the viewer's token": viewer, "the operator's token": operator} {
		_, secrets[name], _ = strings.Cut(token.Secret, ".")
	}
	pages := 0
	for _, token := range []*api.NewToken{viewer, operator} {
		b := open(t, w.Controller)
		b.signIn(token.Secret, "/ui/")
		wants(t, b.crawl(true, func(path string) {
			pages++
			seen := value[string](b, "document.documentElement.outerHTML + document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + location.href")
			fragment := value[string](b, "fetch(location.href, {headers: {'HX-Request': 'true'}}).then(r => r.text())")
			for what, secret := range secrets {
				escaped := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;").Replace(secret)
				if text := seen + fragment; strings.Contains(text, secret) || strings.Contains(text, escaped) {
					t.Errorf("%s shows %s", path, what)
					c.Unauthorised(1)
				}
			}
			if !strings.Contains(seen, "<h1") || len(fragment) < 20 {
				t.Errorf("%s is no page: %.300s", path, seen)
			}
		}))
		if token == operator { // the cookie opens nothing that the API has
			for _, path := range []string{"/v1/vnf_instances/" + id(2, 0) + "/join_token", "/v1/nodes", "/v1/backup"} {
				if status := value[int](b, "fetch('"+path+"').then(r => r.status)"); status != 401 {
					t.Errorf("%s is answered with %d", path, status)
					c.Unauthorised(1)
				}
			}
			b.excuse("status of 401")
		}
	}
	c.Unauthorised(0)
	c.Figure("pages", "%d", pages)
}

// stops are the elements that the keyboard has to reach.
const stops = `[...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')].filter(
  e => e.type !== 'hidden' && e.tabIndex >= 0 && !e.disabled && !e.hidden && e.checkVisibility({visibilityProperty: true}))`

// focus is the focused element, its place among the stops, and whether it shows. The elements are looked
// for again each time: a change may have replaced them.
const focus = `(() => {
  const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect(), all = ` + stops + `;
  const ring = s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2 || s.boxShadow !== 'none';
  return {at: all.indexOf(e), of: all.length, tag: e.tagName + ' ' + (e.textContent || e.name || '').trim().slice(0, 40), ring: ring,
    inside: r.width > 0 && r.height > 0 && r.bottom > 0 && r.top < innerHeight && r.right > 0 && r.left < innerWidth};
})()`

// atTheStart has the keyboard begin at the start of the page.
const atTheStart = `(() => {
  document.body.tabIndex = -1;
  document.body.focus();
  document.body.removeAttribute('tabindex');
  scrollTo(0, 0);
  return true;
})()`

// keyboard walks through the page with Tab.
func (b *tab) keyboard(path string) int {
	b.t.Helper()
	type focused struct {
		At, Of       int
		Tag          string
		Ring, Inside bool
	}
	value[bool](b, atTheStart)
	for i, n := 0, 1; i < n; i++ {
		b.run(chromedp.KeyEvent("\t"))
		f := value[focused](b, focus)
		n = f.Of
		switch {
		case f.At != i:
			b.t.Errorf("%s: Tab number %d of %d comes to %s, which is number %d", path, i+1, n, f.Tag, f.At+1)
			return n
		case !f.Ring || !f.Inside:
			b.t.Errorf("%s: the focus on %s does not show (ring: %v, in the window: %v)", path, f.Tag, f.Ring, f.Inside)
		}
		if i == n-1 {
			return n
		}
	}
	return 0
}

// squares walks through a row of squares with the arrow keys: Tab reaches one of them.
func (b *tab) squares() {
	b.t.Helper()
	if rows, stops := value[int](b, "document.querySelectorAll('.squares').length"), value[int](b, `document.querySelectorAll('.squares [tabindex="0"]').length`); stops != rows || rows == 0 {
		b.t.Errorf("Tab stops %d times in %d rows of squares", stops, rows)
	}
	value[bool](b, "document.querySelector('.squares:has(a + a)').firstChild.focus(), true")
	for _, step := range []struct{ key, is string }{{kb.ArrowRight, "a.previousSibling && !a.previousSibling.previousSibling"}, {kb.ArrowLeft, "!a.previousSibling"}, {kb.End, "!a.nextSibling"}, {kb.Home, "!a.previousSibling"}} {
		b.run(chromedp.KeyEvent(step.key))
		if !value[bool](b, "(a => !!(a.parentNode.className == 'squares' && a.tabIndex == 0 && "+step.is+"))(document.activeElement)") {
			b.t.Errorf("the key %q comes to another square", step.key)
		}
	}
	leads := value[string](b, "document.activeElement.getAttribute('href')")
	b.run(chromedp.KeyEvent(kb.Enter))
	b.until("the square's node is shown", fmt.Sprintf("location.pathname == %q", leads))
}

func TestTheKeyboardReachesEverything(t *testing.T) {
	c := results.Begin(t, "browser", "the keyboard alone", "Tab reaches each link, button and field in their order, the focus shows, and a link skips to the content")
	w := newController(t)
	w.busy()
	b := open(t, w.Controller)
	b.visit("/ui/")
	b.until("the form is shown", formShown)
	n := b.keyboard("the form")
	b.signIn(w.Token("alice", api.ScopeViewer).Secret, "/ui/")
	wants(t, b.crawl(false, func(path string) {
		n += b.keyboard(path)
	}))
	b.visit("/ui/")
	b.squares()
	b.visit("/ui/nodes")
	b.run(chromedp.KeyEvent("\t"), chromedp.KeyEvent("\r"))
	if at := value[string](b, "location.hash + ' ' + document.activeElement.id"); at != "#main main" {
		t.Errorf("the first link skips to %q", at)
	}
	b.run(chromedp.KeyEvent("\t"))
	if !value[bool](b, "document.getElementById('main').contains(document.activeElement)") {
		t.Error("after it, Tab is outside of the content")
	}
	c.Figure("stops", "%d", n)
}

func TestAxeFindsNothingSerious(t *testing.T) {
	c := results.Begin(t, "browser", "axe", "axe-core has no serious or critical finding on any page, also of an empty controller, light and dark, wide and 320 px narrow with letters of 20 px")
	source, err := os.ReadFile(filepath.Join(npm.Install(t, "axe"), "node_modules/axe-core/axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	w := newController(t)
	w.busy()
	b := open(t, w.Controller)
	checked := 0
	// In the short form, light is wide and dark is narrow.
	look := func(b *tab, path string) {
		for _, scheme := range []string{"light", "dark"} {
			b.run(protocol(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
			for _, width := range []int64{1280, 320} {
				if !results.Full() && (width == 320) != (scheme == "dark") {
					continue
				}
				letters := map[int64]int64{1280: 16, 320: 20}[width]
				b.run(chromedp.EmulateViewport(width, 900), protocol(page.SetFontSizes, page.SetFontSizesParams{FontSizes: &page.FontSizes{Standard: letters}}))
				if over := value[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); over > 0 {
					t.Errorf("%s is %d px wider than a window of %d px", path, over, width)
				}
				value[bool](b, string(source)+"; true")
				for _, f := range value[[]finding](b, `axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map(
				  v => ({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.map(n => n.html.slice(0, 200) + ' ' + n.failureSummary)})))`) {
					if f.Impact == "serious" || f.Impact == "critical" {
						t.Errorf("%s (%s, %d px): %s: %s, %s\n%s", path, scheme, width, f.Impact, f.ID, f.Help, strings.Join(f.Nodes, "\n"))
					} else {
						t.Logf("%s (%s, %d px): %s: %s, %s: %.300q", path, scheme, width, f.Impact, f.ID, f.Help, f.Nodes)
					}
				}
				checked++
			}
		}
	}
	b.visit("/ui/")
	b.until("the form is shown", formShown)
	look(b, "the form")
	b.signIn(w.Token("alice", api.ScopeViewer).Secret, "/ui/")
	wants(t, b.crawl(false, func(path string) { look(b, path) }))

	server := httptest.NewServer(pagetest.Empty())
	t.Cleanup(server.Close)
	empty := open(t, &loopback.Controller{URL: server.URL})
	for _, path := range pagetest.Empty().Paths(0) {
		empty.visit(path)
		look(empty, "empty: "+path)
	}
	empty.excuse("status of 404", "console.error \"[object Event]\"") // of the page that is not there; a sample world has no stream of events
	c.Figure("checks", "%d", checked)
}

// finding is a rule that axe-core finds broken.
type finding struct {
	ID, Impact, Help string
	Nodes            []string
}
