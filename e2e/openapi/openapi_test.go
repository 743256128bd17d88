package openapi

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

func TestAClientOfAnOutsideGeneratorCallsEveryOperation(t *testing.T) {
	c := results.Begin(t, "openapi", "a client by openapi-typescript", "the document is valid, and a client that an outside generator makes of it calls every operation")
	metrics := loopback.FreeAddress(t)
	controller := loopback.Open(t, loopback.Options{Settings: map[string]string{"metricsListen": metrics, "agentDirectory": loopback.Bin(t)}})
	program := install(t)
	program.write("openapi.yaml", api.OpenAPI)
	program.node(nil, "node_modules/@seriousme/openapi-schema-validator/bin/validate-api-cli.js", "openapi.yaml")
	program.node(nil, "node_modules/openapi-typescript/bin/cli.js", "openapi.yaml", "--output", "schema.d.ts")
	program.node(nil, "node_modules/typescript/bin/tsc", "--project", ".")
	answers := calls(t, program.node(input(t, controller), "client.js"))

	operations := operations(t)
	for call, id := range operations {
		if answers[call] == 0 {
			t.Errorf("%s (%s) was not called, or never with success: %v", id, call, answers)
		}
	}
	answered := answered(t, controller)
	for _, id := range operations {
		if answered[id] == 0 {
			t.Errorf("the controller has not counted a success of %s: %v", id, answered)
		}
	}
	c.Figure("operations", "%d", len(operations))
	c.Figure("called", "%d", len(answers))
}

// operations are the ids of all operations, by method and path.
func operations(t *testing.T) map[string]string {
	t.Helper()
	document, err := openapi3.NewLoader().LoadFromData(api.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for path, item := range document.Paths.Map() {
		for method, op := range item.Operations() {
			ids[method+" "+path] = op.OperationID
		}
	}
	return ids
}

// calls is how often each operation was answered with success, by method and path.
func calls(t *testing.T, lines []byte) map[string]int {
	t.Helper()
	answers := map[string]int{}
	for line := range bytes.Lines(lines) {
		var answer struct {
			Method, Path string
			Status       int
		}
		if err := json.Unmarshal(line, &answer); err != nil {
			t.Fatalf("the client printed %s: %v", line, err)
		}
		if answer.Status/100 == 2 {
			answers[answer.Method+" "+answer.Path]++
		}
	}
	return answers
}

// answered is how often the controller answered each operation with success, as it counts itself.
func answered(t *testing.T, controller *loopback.Controller) map[string]float64 {
	t.Helper()
	metrics, err := controller.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		var code, id string
		if labels, ok := strings.CutPrefix(name, "nodehitch_http_requests_total"); ok {
			if _, err := fmt.Sscanf(labels, `{code=%q,operation=%q}`, &code, &id); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if code[0] == '2' {
				counts[id] += metrics[name]
			}
		}
	}
	return counts
}

// machine is a server that the client plays. Node.js makes no certificate requests.
type machine struct {
	ServerID               string `json:"serverId"`
	Key                    string `json:"key"`
	CertificateRequest     string `json:"certificateRequest"`
	NextKey                string `json:"nextKey"`
	NextCertificateRequest string `json:"nextCertificateRequest"`
}

func newMachine(t *testing.T) (m machine) {
	t.Helper()
	m.ServerID = uuid.NewString()
	for _, pair := range []struct{ key, request *string }{{&m.Key, &m.CertificateRequest}, {&m.NextKey, &m.NextCertificateRequest}} {
		key := testca.NewKey()
		*pair.key, *pair.request = keyPEM(t, key), testca.Request(key, nil)
	}
	return m
}

// input is what the client has to know, which goes to its standard input: there are secrets in it.
func input(t *testing.T, controller *loopback.Controller) []byte {
	t.Helper()
	token, err := client.Read[api.NewToken](controller.API.CreateToken(t.Context(), api.TokenRequest{Name: "operator", Scope: api.ScopeOperator}))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"url": controller.URL, "rootCertificate": controller.Trust().RootCertificate, "token": token.Secret,
		"image": savedImage(t), "storage": newMachine(t), "registry": newMachine(t), "master": newMachine(t)})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// savedImage is what `docker save` writes, without layers.
func savedImage(t *testing.T) string {
	t.Helper()
	const manifest = `[{"RepoTags":["registry:latest"]}]`
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	err := archive.WriteHeader(&tar.Header{Name: "manifest.json", Mode: 0o600, Size: int64(len(manifest))})
	if err == nil {
		_, err = archive.Write([]byte(manifest))
	}
	if err == nil {
		err = archive.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
