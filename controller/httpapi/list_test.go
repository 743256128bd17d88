package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

const secondID = "c2bb0ce7-ebca-4fa7-95ed-4840d70a1177"

// workers is spec with so many workers in the topology.
func workers(n int) string {
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, `{"id": "5f0c1d52-0000-4000-8000-%012d", "name": "worker-%d", "connectionPoints": [{"name": "workerNode_CP2", "addresses": ["10.10.1.5"]}]}, `, i, i)
	}
	return strings.Replace(spec, `"servers": [`, `"servers": [`+list.String(), 1)
}

// populated is a world with some of everything that can be listed.
func populated(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.ok(w.as(w.operator, "PUT", instancePath, workers(4)), http.StatusCreated, nil)
	w.ok(w.as(w.operator, "PUT", script, "#!/bin/sh\n"), http.StatusCreated, nil)
	for id, labels := range map[string]string{secondID: `{"env": "a"}`, strings.Replace(secondID, "c", "a", 1): `{"env": "b", "old": "1"}`} {
		second := fmt.Sprintf(`{"name": "web", "labels": %s, "additionalParams": {"private_registry_installation_param": {"ssh_cp_name": "CP1"}},
			"topology": {"servers": [{"id": %q, "name": "registry", "connectionPoints": [{"name": "CP1", "addresses": ["10.10.2.5"]}]}]}}`, labels, "7"+id[:1]+id[2:])
		w.ok(w.as(w.operator, "PUT", "/v1/vnf_instances/"+id, second), http.StatusCreated, nil)
	}
	for n := range 3 {
		w.ok(w.as(w.operator, "POST", instancePath+"/operations", `{"operation": "INSTANTIATE", "phase": "START"}`), http.StatusAccepted, nil)
		w.ok(w.as(w.operator, "POST", "/v1/tokens", fmt.Sprintf(`{"name": "third-%d", "scope": "viewer"}`, n)), http.StatusCreated, nil)
	}
	return w
}

var nextLink = regexp.MustCompile(`^<(/v1/[^>]*)>; rel="next"$`)

// items reads a list, from this page on to its end if it is to follow the pages.
func (w *world) items(path string, follow bool) (items []json.RawMessage, pages int) {
	w.t.Helper()
	for path != "" {
		var list struct{ Items []json.RawMessage }
		a := w.as(w.viewer, "GET", path, "")
		w.ok(a, http.StatusOK, &list)
		if list.Items == nil {
			w.t.Errorf("%s: items is null: %s", path, a.body)
		}
		if items, pages, path = append(items, list.Items...), pages+1, ""; pages > 100 {
			w.t.Fatalf("the list does not end: %s", a.header.Get("Link"))
		}
		if link := a.header.Get("Link"); link != "" && follow {
			next := nextLink.FindStringSubmatch(link)
			if next == nil {
				w.t.Fatalf("Link: %s", link)
			}
			path = next[1]
		}
	}
	return items, pages
}

func TestEveryListHasPages(t *testing.T) {
	w := populated(t)
	for _, path := range []string{"/v1/vnf_instances", "/v1/nodes", "/v1/operations", instancePath + "/operations", "/v1/tokens", "/v1/volumes"} {
		whole, _ := w.items(path, false)
		for limit := 1; limit <= len(whole)+1; limit++ {
			got, pages := w.items(fmt.Sprintf("%s?limit=%d", path, limit), true)
			if want := max(1, (len(whole)+limit-1)/limit); pages != want {
				t.Errorf("%s: %d pages of %d, want %d", path, pages, limit, want)
			}
			if !slices.EqualFunc(got, whole, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
				t.Errorf("%s: pages of %d have %s, the whole list %s", path, limit, got, whole)
			}
		}
		if len(whole) < 3 && path != "/v1/volumes" {
			t.Errorf("%s has %d items", path, len(whole))
		}
		for query, word := range map[string]string{"limit=0": "at least 1", "limit=10001": "at most 10000", "limit=x": "an integer", "marker=%25": "Link"} {
			if a := w.as(w.viewer, "GET", path+"?"+query, ""); a.status != http.StatusBadRequest || !strings.Contains(a.problem.Detail, word) {
				t.Errorf("%s?%s: %d %s", path, query, a.status, a.body)
			}
		}
	}
}

// A page begins behind the last item of the one before, also if that is gone.
func TestAPageFollowsAnItemThatIsGone(t *testing.T) {
	w := populated(t)
	var made wire.NewToken
	w.ok(w.as(w.operator, "POST", "/v1/tokens", `{"name": "fourth", "scope": "viewer"}`), http.StatusCreated, &made)
	tokens, _ := w.items("/v1/tokens", false)
	a := w.as(w.viewer, "GET", "/v1/tokens?limit=2", "")
	var second wire.Token
	w.must(json.Unmarshal(tokens[1], &second))
	w.ok(w.as(w.operator, "DELETE", "/v1/tokens/"+second.ID, ""), http.StatusNoContent, nil)
	rest, _ := w.items(nextLink.FindStringSubmatch(a.header.Get("Link"))[1], true)
	if len(rest) != len(tokens)-2 || string(rest[0]) != string(tokens[2]) {
		t.Errorf("behind the second of %s: %s", tokens, rest)
	}
}

func TestListsHaveFilters(t *testing.T) {
	w := populated(t)
	w.ok(w.as(w.operator, "POST", "/v1/nodes/"+serverID+"/revoke", ""), http.StatusOK, nil)
	// A server that left without an identity has only a name on record.
	w.ok(w.as(w.operator, "PUT", instancePath, workers(5)), http.StatusOK, nil)
	w.ok(w.as(w.operator, "PUT", instancePath, workers(4)), http.StatusOK, nil)
	for path, want := range map[string]int{
		"/v1/nodes":                                            7,
		"/v1/nodes?role=worker":                                4,
		"/v1/nodes?role=worker&limit=3":                        4,
		"/v1/nodes?role=worker&vnfInstanceId=" + secondID:      0,
		"/v1/nodes?vnfInstanceId=" + strings.ToUpper(secondID): 1,
		"/v1/nodes?state=Expected":                             6,
		"/v1/nodes?state=Revoked":                              1,
		"/v1/nodes?all=true":                                   8,
		"/v1/nodes?all=false":                                  7,
		"/v1/nodes?ready=false":                                7,
		"/v1/nodes?ready=true":                                 0,
		"/v1/vnf_instances?kind=PrivateRegistry":               2,
		"/v1/vnf_instances?name=web":                           2,
		"/v1/vnf_instances?labelSelector=env+in+(a,b),!old":    1,
		"/v1/vnf_instances?state=INSTANTIATED":                 0,
		"/v1/vnf_instances?state=NOT_INSTANTIATED&limit=1":     3,
		"/v1/operations?operation=INSTANTIATE":                 3,
		"/v1/operations?operation=HEAL":                        0,
		"/v1/operations?state=COMPLETED&limit=2":               3,
		"/v1/operations?vnfInstanceId=" + secondID:             0,
		instancePath + "/operations?state=COMPLETED&limit=1":   3,
		instancePath + "/operations?state=FAILED":              0,
		instancePath + "/operations?operation=HEAL":            0,
		"/v1/volumes?vnfInstanceId=" + instanceID:              1,
		"/v1/volumes?vnfInstanceId=" + secondID:                0,
		"/v1/volumes?nodeId=" + serverID + "&permitState=None": 1,
		"/v1/volumes?nodeId=" + volumeID:                       0,
		"/v1/volumes?permitState=Formatted":                    0,
	} {
		if got, _ := w.items(path, true); len(got) != want {
			t.Errorf("%s has %d items, want %d: %s", path, len(got), want, got)
		}
	}
	for _, path := range []string{"/v1/nodes?role=storage_server", "/v1/nodes?ready=maybe", "/v1/nodes?state=enrolled", "/v1/vnf_instances?kind=x", "/v1/vnf_instances?labelSelector=env%3D%3D%3Da", "/v1/operations?vnfInstanceId=x"} {
		if a := w.as(w.viewer, "GET", path, ""); a.status != http.StatusBadRequest || a.problem.Type != wire.ProblemInvalid {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

// A page that was the last one and is not any more has another ETag, though its items are
// the same; and the next page is not waited for.
func TestAPageCanBeWatched(t *testing.T) {
	w := newWorld(t)
	w.putInstance()
	path := "/v1/vnf_instances?limit=1"
	a := w.as(w.viewer, "GET", path, "")
	held := w.hold(w.client, path+"&wait=30s", "Authorization: Bearer "+w.viewer, "If-None-Match: "+a.header.Get("ETag"))
	w.ok(w.as(w.operator, "PUT", "/v1/vnf_instances/"+secondID, `{"additionalParams": {"private_registry_installation_param": {"ssh_cp_name": "CP1"}}}`), http.StatusCreated, nil)
	b := soon(t, held)
	if b.status != http.StatusOK || b.body != a.body || a.header.Get("Link") != "" || b.header.Get("Link") == "" || strings.Contains(b.header.Get("Link"), "wait") {
		t.Errorf("before: %v %s, after: %d %v %s", a.header, a.body, b.status, b.header, b.body)
	}
	// Whoever waits for the first page waits for all.
	held = w.hold(w.client, path+"&wait=30", "Authorization: Bearer "+w.viewer, "If-None-Match: "+b.header.Get("ETag"))
	w.ok(w.as(w.operator, "PUT", "/v1/vnf_instances/"+strings.Replace(secondID, "c", "d", 1), `{"additionalParams": {"private_registry_installation_param": {"ssh_cp_name": "CP1"}}}`), http.StatusCreated, nil)
	if c := soon(t, held); c.status != http.StatusOK || c.body != b.body || c.header.Get("Link") != b.header.Get("Link") || c.header.Get("ETag") == b.header.Get("ETag") {
		t.Errorf("a change on another page: %d %v %s", c.status, c.header, c.body)
	}
}

// Everything that changes by itself or by others has an ETag and can be waited for.
func TestWhatCanBeWaitedFor(t *testing.T) {
	w := populated(t)
	token := func() {
		w.ok(w.as(w.operator, "POST", "/v1/tokens", `{"name": "fourth", "scope": "viewer"}`), http.StatusCreated, nil)
	}
	operation := func() {
		w.ok(w.as(w.operator, "POST", instancePath+"/operations", `{"operation": "INSTANTIATE", "partial": true}`), http.StatusAccepted, nil)
	}
	format := func() {
		w.ok(w.as(w.operator, "POST", "/v1/volumes/"+volumeID+"/reformat", `{"confirmVolumeId": "`+volumeID+`"}`), http.StatusOK, nil)
	}
	leave := func() {
		w.ok(w.as(w.operator, "PUT", instancePath, strings.Replace(spec, volumeID, serverID, 2)), http.StatusOK, nil)
	}
	for _, c := range []struct {
		path   string
		change func()
	}{
		{"/v1/tokens", token},
		{"/v1/volumes", format},
		{"/v1/volumes/" + volumeID, leave},
		{instancePath + "/operations", operation},
		{instancePath + "/operations/4", func() { w.ok(w.as(w.operator, "POST", instancePath+"/operations/4/cancel", ""), http.StatusOK, nil) }},
		{"/v1/nodes/" + serverID, func() { w.ok(w.as(w.operator, "POST", "/v1/nodes/"+serverID+"/revoke", ""), http.StatusOK, nil) }},
		{"/v1/volumes", func() { w.ok(w.as(w.operator, "PUT", instancePath, spec), http.StatusOK, nil) }},
	} {
		a := w.as(w.viewer, "GET", c.path, "")
		w.ok(a, http.StatusOK, nil)
		known := "If-None-Match: " + a.header.Get("ETag")
		if same := w.as(w.viewer, "GET", c.path, "", known); same.status != http.StatusNotModified || same.header.Get("ETag") == "" {
			t.Errorf("%s: %d %s %s, want 304", c.path, same.status, same.header.Get("ETag"), same.body)
		}
		held := w.hold(w.client, c.path+"?wait=30", "Authorization: Bearer "+w.viewer, known)
		c.change()
		if b := soon(t, held); b.status != http.StatusOK || b.body == a.body || b.header.Get("ETag") == a.header.Get("ETag") {
			t.Errorf("%s: after a change %d %v %s", c.path, b.status, b.header, b.body)
		}
	}
	// With an ETag the end of an operation is a change as any other.
	over := instancePath + "/operations/4"
	a := w.as(w.viewer, "GET", over, "")
	if b := w.as(w.viewer, "GET", over+"?wait=100ms", "", "If-None-Match: "+a.header.Get("ETag")); b.status != http.StatusNotModified {
		t.Errorf("an operation that is over: %d %s", b.status, b.body)
	}
}

func TestTheClientReadsAListToItsEnd(t *testing.T) {
	w := newWorld(t)
	const servers = 1001 // two full pages, and one more
	w.ok(w.as(w.operator, "PUT", instancePath, workers(servers-1)), http.StatusCreated, nil)
	c, err := client.New(client.Options{BaseURL: w.url, RootPEM: []byte(w.Authority.RootPEM()), Token: w.viewer})
	w.must(err)
	defer c.CloseIdle()
	instance := instanceID
	nodes, err := client.All[wire.Node](func(page client.RequestEditorFn) (*http.Response, error) {
		return c.ListNodes(t.Context(), &wire.ListNodesParams{VnfInstanceID: &instance}, page)
	})
	w.must(err)
	ids := map[string]bool{}
	for _, n := range nodes {
		ids[n.ID] = true
	}
	if requests := strings.Count(w.log.String(), "operation=listNodes "); len(ids) != servers || len(nodes) != servers || requests != 3 {
		t.Errorf("%d nodes with %d ids in %d requests, want %d in 3", len(nodes), len(ids), requests, servers)
	}
	if first, _ := w.items("/v1/nodes", false); len(first) != 1000 {
		t.Errorf("without a limit a page has %d nodes, want 1000", len(first))
	}
	list := func(page client.RequestEditorFn) (*http.Response, error) { return c.ListNodes(t.Context(), nil, page) }
	resp, err := c.ListNodes(t.Context(), nil) //nolint:bodyclose // Read closes it
	resp, err = client.Whole(resp, err, list)  //nolint:bodyclose // Read closes it
	if whole, err := client.Read[wire.NodeList](resp, err); err != nil || len(whole.Items) != servers {
		t.Errorf("a watch has %d nodes, %v", len(whole.Items), err)
	}
}
