package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/httpapi"
	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
	"github.com/nodehitch/nodehitch/shared/fault"
)

func TestEveryFaultOfABodyIsReportedAtOnce(t *testing.T) {
	w := newWorld(t)
	a := w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID,
		`{"stackID": "x", "topology": {"servers": [{"id": "1", "name": "a"}, {"name": 7}]}, "additionalParams": "none", "additionalParams": []}`)
	want := []fault.Fault{
		{Pointer: "/additionalParams", Message: "is given more than once"},
		{Pointer: "/stackID", Message: "is not known here; did you mean stackId?"},
		{Pointer: "/topology/servers/0/id", Message: "is not a UUID"},
		{Pointer: "/topology/servers/1/id", Message: "is missing"},
		{Pointer: "/topology/servers/1/name", Message: "found a number, expected a string"},
		{Pointer: "/additionalParams", Message: "found a string, expected an object"},
		{Pointer: "/additionalParams", Message: "found a list, expected an object"},
	}
	beginning := cmp.Comparer(func(a, b fault.Fault) bool {
		return a.Pointer == b.Pointer && (strings.HasPrefix(a.Message, b.Message) || strings.HasPrefix(b.Message, a.Message))
	})
	if a.status != http.StatusBadRequest || a.problem.Type != wire.ProblemInvalid {
		t.Errorf("%d %s", a.status, a.body)
	}
	if diff := cmp.Diff(want, a.problem.InvalidParams, beginning); diff != "" {
		t.Error(diff)
	}
}

func TestFaultsOfParametersComeWithThoseOfTheBody(t *testing.T) {
	w := newWorld(t)
	a := w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID, `{"foo": 1, "topology": {"servers": 7},
		"additionalParams": {"private_registry_installation_param": {"port_no": 0, "port_no": 0}}}`)
	const registry = "/additionalParams/private_registry_installation_param"
	want := []string{registry + "/port_no", "/foo", "/topology/servers", registry, registry + "/port_no"} // given twice; ssh_cp_name is missing; 0
	if got := pointers(a.problem); a.status != http.StatusBadRequest || !slices.Equal(got, want) {
		t.Errorf("%d with faults at %v, want 400 and %v", a.status, got, want)
	}
}

// Whatever else is wrong, all faults of the parameters come at once, by PUT and by its plan.
func TestAHostsLineThatNamesTheControllerIsAFaultAmongOthers(t *testing.T) {
	w := newWorld(t)
	w.Lifecycle.Instances.OwnNames = []string{"hitch.example.com"}
	const cluster, hosts = "/additionalParams/k8s_cluster_installation_param", "/private_registry_connection_info/0/hosts_string"
	bad := strings.Replace(spec, `"storage_server": {`, `"private_registry_connection_info": [
		{"connection_type": 1, "server": "one.example.com", "hosts_string": "192.0.2.1 one.example.com hitch.example.com"}], "storage_server": {`, 1)
	for name, test := range map[string]struct {
		old, with string
		want      []string
	}{
		"alone":                         {"", "", []string{cluster + hosts}},
		"beside a fault of the body":    {`"stackId": "stack-1",`, `"stackID": "stack-1",`, []string{"/stackID", cluster + hosts}},
		"beside one of the parameters":  {`"mount_to": "/volume"`, `"mount_to": "volume"`, []string{cluster + "/storage_server/cinder_volume_setup_params/0/mount_to", cluster + hosts}},
		"beside one of the body's form": {`"topology": {`, `"topology": {"x": 1, `, []string{"/topology/x", cluster + hosts}},
	} {
		for path, method := range map[string]string{instancePath: "PUT", instancePath + "/plan": "POST"} {
			a := w.as(w.operator, method, path, strings.Replace(bad, test.old, test.with, 1))
			if got := pointers(a.problem); a.status != http.StatusBadRequest || !slices.Equal(got, test.want) {
				t.Errorf("%s, %s: %d with faults at %v, want 400 and %v", name, method, a.status, got, test.want)
			}
		}
	}
}

func TestBodiesThatAreNoJSONAreRefused(t *testing.T) {
	w := newWorld(t)
	put := func(body string, headers ...string) answer {
		return w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID, body, headers...)
	}
	for name, test := range map[string]struct {
		answer answer
		status int
		word   string
	}{
		"nothing":      {put("", "Content-Type: application/json"), 400, "is empty; expected a JSON document"},
		"cut off":      {put(`{"additionalParams": {`), 400, "is not whole JSON"},
		"deep":         {put(`{"additionalParams":` + strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 201)), 400, "deeper than 100 levels"},
		"form":         {put(`a=b`, "Content-Type: application/x-www-form-urlencoded"), 415, "expected Content-Type: application/json"},
		"no type":      {put(`{}`, "Content-Type: "), 415, "expected Content-Type: application/json"},
		"compressed":   {put(`{}`, "Content-Encoding: gzip"), 415, "send it without Content-Encoding"},
		"too large":    {put(`{"additionalParams": {"a": "` + strings.Repeat("x", httpapi.MaxBodyBytes) + `"}}`), 413, "larger than 1048576 bytes"},
		"null":         {put(`null`), 400, "found null, expected an object"},
		"two of them":  {put(`{"additionalParams":{}} {}`), 400, "is not JSON"},
		"not in UTF-8": {put("{\"additionalParams\":{\"a\":\"\xff\"}}"), 400, "not UTF-8"},
	} {
		if test.answer.status != test.status || test.answer.problem.Status != test.status || !strings.Contains(test.answer.body, test.word) {
			t.Errorf("%s: %d %s", name, test.answer.status, test.answer.body)
		}
		if test.status == 415 && test.answer.problem.Type != wire.ProblemMediaType {
			t.Errorf("%s: the problem is %s", name, test.answer.problem.Type)
		}
	}
}

func TestParametersAreCheckedTogether(t *testing.T) {
	w := newWorld(t)
	a := w.as(w.viewer, "GET", "/v1/vnf_instances/nope/operations/x?wait=1h&wiat=1s", "")
	for _, want := range []string{"vnfInstanceId: is not a UUID", "sequence: found the number x, expected an integer", `"wiat" is not known here`} {
		if a.status != 400 || !strings.Contains(a.problem.Detail, want) {
			t.Errorf("%q is missing: %d %s", want, a.status, a.body)
		}
	}
	for _, wait := range []string{"1h", "-1s", "soon", "61", "1.5", "99999999999999999999"} {
		if a := w.as(w.viewer, "GET", "/v1/nodes?wait="+wait, ""); a.status != 400 || !strings.Contains(a.problem.Detail, "such as 30s") {
			t.Errorf("wait=%s: %d %s", wait, a.status, a.body)
		}
	}
}

func TestWhatTheRouterDoesNotKnowIsAProblemToo(t *testing.T) {
	w := newWorld(t)
	if a := w.call(w.client, "GET", "/v2/nodes", ""); a.status != 404 || a.problem.Type != wire.ProblemNotFound || a.problem.Instance != "/v2/nodes" {
		t.Errorf("no path: %d %s", a.status, a.body)
	}
	a := w.call(w.client, "PATCH", "/v1/nodes", "")
	if a.status != 405 || a.problem.Type != wire.ProblemMethodNotAllowed || !strings.Contains(a.header.Get("Allow"), "GET") || !strings.Contains(a.header.Get("Allow"), "HEAD") {
		t.Errorf("no method: %d %s, Allow: %s", a.status, a.body, a.header.Get("Allow"))
	}
	if a := w.call(w.client, "GET", "/v1/nodes", "", "X-Large: "+strings.Repeat("x", 64<<10)); a.status != 431 {
		t.Errorf("large header: %d", a.status)
	}
}

func TestWhatGoesWrongInsideStaysInside(t *testing.T) {
	for name, ready := range map[string]func(context.Context) error{
		"a panic":  func(context.Context) error { panic("the secret inside") },
		"an error": func(context.Context) error { return errors.New("the secret inside") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *httpapi.Options) { o.Serviceable = ready })
			a := w.call(w.client, "GET", "/readyz", "")
			if a.status < 500 || strings.Contains(a.body, "secret inside") || a.problem.Status != a.status {
				t.Errorf("%d %s", a.status, a.body)
			}
			if a.status == 503 && a.header.Get("Retry-After") == "" {
				t.Error("503 without Retry-After")
			}
			if id := a.header.Get("X-Request-Id"); id == "" || a.status == 500 && !strings.Contains(a.problem.Detail, id) {
				t.Errorf("the answer does not name its request id %q: %s", id, a.body)
			}
			if log := w.log.String(); !strings.Contains(log, "the secret inside") || a.status == 500 && !strings.Contains(log, "problem_test.go") {
				t.Errorf("the log does not say what went wrong: %s", log)
			}
		})
	}
}

func TestAServerThatNoTopologyExpectsIsToldWhenToAskAgain(t *testing.T) {
	w := newWorld(t)
	_, join := w.enroll()
	csr := testca.Request(testca.NewKey(), nil)
	body := `{"serverId": "99999999-0000-4000-8000-000000000001", "certificateRequest": ` + quote(csr) + `}`
	a := w.as(join, "POST", "/v1/enroll", body)
	if a.problem.Type != wire.ProblemServerNotExpected || a.header.Get("Retry-After") == "" {
		t.Errorf("%v %s", a.header, a.body)
	}
}
