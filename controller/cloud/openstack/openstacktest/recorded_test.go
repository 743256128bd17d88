package openstacktest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	theStack  = "35dc4b0e-9e42-4d9f-a14d-c80f6354ff8b"
	theServer = "52157dd6-2c60-430c-8392-6e0cf1c009cd"
	theWorker = "4ccb87d7-a28c-409b-bb6e-4209a0509b84"
	nothing   = "00000000-0000-4000-8000-000000000000"
)

// small is what was recorded, but less of it.
func small(t *testing.T) *Cloud {
	c := Start(t)
	c.Put(
		Stack{ID: theStack, Name: "cloud-one", Status: "CREATE_COMPLETE", Reason: "Stack CREATE completed successfully", Resources: []Resource{
			{Name: "worker_instance", Type: "OS::Heat::AutoScalingGroup", PhysicalID: "8f762e48-095a-4501-8d97-ce2248b2018c", Nested: []Resource{
				{Name: "member", Type: "worker.yaml", PhysicalID: "a6a6f5cc-0f0f-4f6c-9a52-3f6c7d6a4b11", Nested: []Resource{
					{Name: "workerNode", Type: "OS::Nova::Server", PhysicalID: theWorker}}}}},
			{Name: "storage_server", Type: "OS::Nova::Server", PhysicalID: theServer}}},
		Stack{ID: "c9c6fb7b-74ee-4511-8c50-0e928dc776b4", Name: "cloud-fail", Status: "CREATE_FAILED", Reason: "no", Resources: []Resource{
			{Name: "later_CP", Type: "OS::Neutron::Port", Status: "INIT_COMPLETE"}}},
		Server{ID: theWorker, Name: "worker", Addresses: map[string][]string{"lab": {"10.10.0.154"}}},
		Server{ID: theServer, Name: "storage_server", Addresses: map[string][]string{"lab": {"10.10.0.167"}}},
		Server{ID: theStack, Name: "a third"},
		Server{ID: "0a0650f8-de7e-4218-9398-3df84c6ad05f", Project: "of others"},
		Port{ID: theStack, Name: "cp", DeviceID: theServer, Addresses: []string{"10.10.0.167"}},
		Port{ID: theServer, Name: "cp"}, Port{ID: theWorker, Name: "cp"},
		FloatingIP{ID: theStack, Address: "203.0.113.161", PortID: theStack, Fixed: "10.10.0.167"},
		Volume{ID: theStack, Name: "v", SizeGiB: 2, AttachedTo: []string{theServer}}, Volume{ID: theServer, Name: "w"},
	)
	return c
}

func TestTheFakeAnswersLikeTheRealOne(t *testing.T) {
	cloud := small(t)
	token := issue(t, cloud)
	for _, r := range recordings(t) {
		t.Run(r.Name, func(t *testing.T) {
			bearer := token
			if strings.HasSuffix(r.Name, "-unauthorized") {
				bearer = "expired"
			}
			if strings.HasSuffix(r.Name, "-page") {
				cloud.PageSize = 1
				defer func() { cloud.PageSize = 1000 }()
			}
			// What is deleted has to be there, and what is deleted again not.
			switch r.Name {
			case "metadata-deleted":
				cloud.Put(Server{ID: theServer, Metadata: map[string]string{"cl_probe": "x"}})
			case "metadata-deleted-again":
				cloud.Put(Server{ID: theServer})
			}
			status, body := ask(t, cloud, bearer, r)
			if status != r.Status {
				t.Errorf("status %d, recorded %d", status, r.Status)
			}
			real, fake := shape(t, r.Body), shape(t, body)
			comparable(real, fake)
			if diff := cmp.Diff(real, fake); diff != "" {
				t.Errorf("shape (-recorded +fake):\n%s", diff)
			}
		})
	}
}

// issue is a token of the fake.
func issue(t *testing.T, c *Cloud) string {
	t.Helper()
	body := fmt.Sprintf(`{"auth":{"identity":{"methods":["application_credential"],"application_credential":{"id":%q,"secret":%q}}}}`, AppID, AppSecret)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.URL+"/identity/v3/auth/tokens", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.Header.Get("X-Subject-Token")
}

// ask makes a recorded call at the fake.
func ask(t *testing.T, c *Cloud, token string, r recording) (int, json.RawMessage) {
	t.Helper()
	at := r.URL
	for port, prefix := range map[string]string{":5000": "/identity", ":8004": "/orchestration", ":8774": "/compute", ":9696": "/network", ":8776": "/volume"} {
		at = strings.Replace(at, "10.10.0.1"+port, prefix, 1)
	}
	body := map[string]string{
		"login":         fmt.Sprintf(`{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":%q,"password":%q}}},"scope":{"project":{"name":%q}}}}`, User, Password, Project),
		"login-refused": `{"auth":{}}`, "metadata-set": `{"meta":{"cl_probe":"x"}}`, "metadata-set-gone": `{"meta":{"cl_probe":"x"}}`,
	}[r.Name]
	request, err := http.NewRequestWithContext(t.Context(), r.Method, c.URL+at, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Auth-Token", token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, text
}

// shape is the kind of value at each place of a JSON text; all elements of a list have
// one place, and so have members whose names are data. What is null in one answer may be
// a value in another, so null says nothing but that the member is there.
func shape(t *testing.T, text json.RawMessage) map[string]string {
	t.Helper()
	out := map[string]string{}
	if len(text) == 0 || string(text) == "null" {
		return out
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	walk(out, "", v)
	return out
}

// comparable takes out of two shapes what one of them has nothing to show of: members of
// nested stacks only, elements of lists that may be empty.
func comparable(a, b map[string]string) {
	for _, part := range []string{".parent_resource", ".addresses[]", ".attachments[]", "volumes_attached[]", ".required_by[]", "fixed_ips[]", ".metadata[]"} {
		has := func(place string, _ string) bool { return strings.Contains(place, part) }
		some := func(m map[string]string) bool {
			return slices.ContainsFunc(slices.Collect(maps.Keys(m)), func(place string) bool { return has(place, "") })
		}
		if some(a) != some(b) {
			maps.DeleteFunc(a, has)
			maps.DeleteFunc(b, has)
		}
	}
}

func walk(out map[string]string, at string, v any) {
	switch v := v.(type) {
	case map[string]any:
		out[at] = "object"
		for _, name := range slices.Sorted(maps.Keys(v)) {
			next := at + "." + name
			if strings.HasSuffix(at, ".addresses") || strings.HasSuffix(at, ".metadata") || strings.HasSuffix(at, ".meta") {
				next = at + "[]"
			}
			walk(out, next, v[name])
		}
	case []any:
		out[at] = "list"
		for _, e := range v {
			walk(out, at+"[]", e)
		}
	case nil:
		if out[at] == "" {
			out[at] = "null"
		}
	default:
		out[at] = fmt.Sprintf("%T", v)
	}
}
