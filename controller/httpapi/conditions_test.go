package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	wire "github.com/nodehitch/nodehitch/shared/api"
)

const instancePath = "/v1/vnf_instances/" + instanceID

// changed is spec with other parameters.
var changed = strings.Replace(spec, "10.10.0.0/24", "10.20.0.0/24", 1)

// tag is the instance's ETag.
func (w *world) tag() string {
	w.t.Helper()
	a := w.as(w.viewer, "GET", instancePath, "")
	w.ok(a, http.StatusOK, nil)
	if a.header.Get("ETag") == "" {
		w.t.Fatalf("the instance has no ETag: %v", a.header)
	}
	return a.header.Get("ETag")
}

func (w *world) failsCondition(what string, a answer) {
	w.t.Helper()
	if a.status != http.StatusPreconditionFailed || a.problem.Type != wire.ProblemPrecondition {
		w.t.Errorf("%s: %d %s, want 412 and %s", what, a.status, a.body, wire.ProblemPrecondition)
	}
}

func TestAPutOfAnInstanceThatHasChangedIsRefused(t *testing.T) {
	w := newWorld(t)
	put := func(body, header string) answer { return w.as(w.operator, "PUT", instancePath, body, header) }
	w.failsCondition("no instance", put(spec, "If-Match: *"))
	w.ok(put(spec, "If-None-Match: *"), http.StatusCreated, nil)
	w.failsCondition("an instance", put(spec, "If-None-Match: *"))
	known := w.tag()
	w.failsCondition("a weak ETag", put(changed, "If-Match: W/"+known))
	w.ok(w.as(w.operator, "PUT", script, "#!/bin/sh\n"), http.StatusCreated, nil)
	w.failsCondition("a file since", put(changed, "If-Match: "+known))
	w.ok(put(changed, `If-Match: "another", `+w.tag()), http.StatusOK, nil)
	w.failsCondition("a PUT since", put(spec, "If-Match: "+known))
	if a := put(`{"additionalParams": {}}`, "If-Match: "+known); a.status != http.StatusBadRequest {
		t.Errorf("a request that is not valid: %d %s, want 400 whatever the condition", a.status, a.body)
	}
	if a := w.as(w.viewer, "GET", instancePath, ""); !strings.Contains(a.body, "10.20.0.0/24") {
		t.Errorf("a refused PUT has changed the instance: %s", a.body)
	}
	a := put(spec, "If-Match: *")
	w.ok(a, http.StatusOK, nil)
	w.ok(put(changed, "If-Match: "+a.header.Get("ETag")), http.StatusOK, nil)
}

// What was made or changed has its ETag in the answer, and what was made its path: GET of it has both.
func TestAnAnswerSaysWhatWasMadeAndChanged(t *testing.T) {
	w := newWorld(t)
	odd := instancePath + "/files/a%20b/%C3%A4%25.yaml"
	for _, put := range []struct {
		path, body string
		status     int
	}{
		{script, "#!/bin/sh\n", http.StatusCreated}, {script, "#!/bin/sh -e\n", http.StatusOK},
		{odd, "x", http.StatusCreated}, {odd, "y", http.StatusOK},
		{instancePath, spec, http.StatusCreated}, {instancePath, changed, http.StatusOK},
	} {
		a := w.as(w.operator, "PUT", put.path, put.body)
		w.ok(a, put.status, nil)
		path := a.header.Get("Location")
		if put.status == http.StatusOK {
			path = put.path
		}
		if known := w.as(w.operator, "GET", path, "", "If-None-Match: "+a.header.Get("ETag")); known.status != http.StatusNotModified {
			t.Errorf("%s: %d with %v, and GET of it: %d %s, want 304", put.path, a.status, a.header, known.status, known.header.Get("ETag"))
		}
	}
}

// A PUT observes the stack, which GET shows: that is no change that another has made.
func TestAPutDoesNotFailItsOwnCondition(t *testing.T) {
	w := newWorld(t)
	w.putInstance()
	for range 2 {
		w.ahead.Add(int64(time.Hour))
		before := w.tag()
		w.ok(w.as(w.operator, "PUT", instancePath, spec, "If-Match: "+before), http.StatusOK, nil)
		if w.tag() == before {
			t.Error("the same ETag, though the stack was observed anew")
		}
	}
}

func TestADeleteOfAnInstanceThatHasChangedIsRefused(t *testing.T) {
	w := newWorld(t)
	w.putInstance()
	known := w.tag()
	w.ok(w.as(w.operator, "PUT", instancePath, changed), http.StatusOK, nil)
	w.failsCondition("DELETE", w.as(w.operator, "DELETE", instancePath, "", "If-Match: "+known))
	w.ok(w.as(w.operator, "DELETE", instancePath, "", "If-Match: "+w.tag()), http.StatusNoContent, nil)
	if a := w.as(w.operator, "DELETE", instancePath, "", "If-Match: *"); a.status != http.StatusNotFound {
		t.Errorf("no instance: %d %s", a.status, a.body)
	}
}

func TestAnInstanceCanBeWatched(t *testing.T) {
	w := newWorld(t)
	w.putInstance()
	known := w.tag()
	if a := w.as(w.viewer, "GET", instancePath, "", `If-None-Match: "another", `+known); a.status != http.StatusNotModified || a.body != "" || a.header.Get("ETag") != known {
		t.Errorf("known: %d %s %v", a.status, a.body, a.header)
	}
	held := w.hold(w.client, instancePath+"?wait=30s", "Authorization: Bearer "+w.viewer, "If-None-Match: "+known)
	w.ok(w.as(w.operator, "PUT", script, "#!/bin/sh\n"), http.StatusCreated, nil)
	if a := soon(t, held); a.status != http.StatusOK || !strings.Contains(a.body, `"missingFiles":[]`) || a.header.Get("ETag") == known {
		t.Errorf("after a change: %d %s", a.status, a.body)
	}
}

// Lines of one header are one list (RFC 9110, section 5.3).
func TestAConditionMayHaveSeveralLines(t *testing.T) {
	w := newWorld(t)
	w.putInstance()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+instancePath, http.NoBody)
	w.must(err)
	r.Header = http.Header{"Authorization": {"Bearer " + w.viewer}, "If-None-Match": {`"another"`, w.tag()}}
	response, err := w.client.Do(r)
	w.must(err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusNotModified {
		t.Errorf("%s, want 304", response.Status)
	}
}
