package httpapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/httpapi"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// policy is what every operation asks for. It is written out here so that a change
// of the document is a change of this list, too.
var policy = map[string]string{
	"getHealthz": "open", "getReadyz": "open", "getAgent": "open", "getOpenapi": "open", "getVersion": "open",

	"listReplicas": "viewer",

	"listInstances": "viewer", "getInstance": "viewer", "listInstanceOperations": "viewer", "getOperation": "viewer",
	"listOperations": "viewer", "listNodes": "viewer", "getNode": "viewer", "listVolumes": "viewer", "getVolume": "viewer",
	"getAgents": "viewer", "listTokens": "viewer", "listEvents": "viewer", "getTrust": "viewer", "getWhoami": "viewer",

	"putInstance": "operator", "planInstance": "operator", "deleteInstance": "operator", "putFile": "operator", "getFile": "operator", "deleteFile": "operator", "getJoinToken": "operator", "getClusterAccess": "operator", "getDiagnostics": "operator",
	"postOperation": "operator", "cancelOperation": "operator", "revokeNode": "operator", "reenrollNode": "operator", "adoptVolume": "operator",
	"reformatVolume": "operator", "createToken": "operator", "revokeToken": "operator",
	"upgradeAgents": "operator", "pauseAgents": "operator", "getBackup": "operator", "confirmInstance": "operator", "confirmToken": "operator",

	"enroll": "joinToken",

	"renewCertificate": "certificate", "getNodeConfig": "certificate", "putNodeStatus": "certificate", "postFormat": "certificate", "getNodeFile": "certificate",
}

// forTacker is what a token of scope tacker may call.
var forTacker = []string{
	"putInstance", "planInstance", "getInstance", "deleteInstance", "putFile", "getJoinToken", "getClusterAccess", "getTrust",
	"postOperation", "getOperation", "listInstanceOperations", "cancelOperation", "getNode", "getWhoami",
}

// paths fills the parameters of the document's paths.
var paths = strings.NewReplacer("{vnfInstanceId}", instanceID, "{sequence}", "1", "{nodeId}", serverID, "{volumeId}", volumeID,
	"{tokenId}", "none", "{sha256}", strings.Repeat("0", 64), "{arch}", "amd64", "{path}", "Files/x.yaml")

func TestEveryOperationAsksForWhatItsPolicySays(t *testing.T) {
	w := newWorld(t)
	document, err := httpapi.Document()
	w.must(err)
	node, _ := w.enroll()
	seen := 0
	for path, item := range document.Paths.Map() {
		for method, op := range item.Operations() {
			seen++
			id := op.OperationID
			want, known := policy[id]
			if !known {
				t.Errorf("%s has no policy", id)
				continue
			}
			t.Run(id, func(t *testing.T) {
				path := paths.Replace(path)
				refused := func(name string, client *http.Client, status int, headers ...string) {
					t.Helper()
					a := w.call(client, method, path, "", headers...)
					if a.status != status || a.problem.Status != status || a.problem.Type == "" {
						t.Errorf("%s: got %d %s, want %d", name, a.status, a.body, status)
					}
				}
				passes := func(name string, client *http.Client, headers ...string) {
					t.Helper()
					a := w.call(client, method, path, "", headers...)
					if a.status == http.StatusUnauthorized || a.problem.Type == wire.ProblemForbidden {
						t.Errorf("%s: got %d %s", name, a.status, a.body)
					}
				}
				operator, viewer, tacker := "Authorization: Bearer "+w.operator, "Authorization: bearer "+w.viewer, "Authorization: Bearer "+w.tacker
				if id == "revokeNode" || id == "reenrollNode" || id == "deleteInstance" {
					path = strings.NewReplacer(serverID, strings.Replace(serverID, "3", "4", 1), instanceID, strings.Replace(instanceID, "b", "c", 1)).Replace(path)
				}
				switch want {
				case "open":
					passes("anybody", w.client)
					return
				case "viewer":
					passes("a viewer", w.client, viewer)
					passes("an operator", w.client, operator)
					passes("root on the unix socket", w.local())
				case "operator":
					refused("a viewer", w.client, http.StatusForbidden, viewer)
					passes("an operator", w.client, operator)
				case "joinToken":
					refused("an operator", w.client, http.StatusUnsupportedMediaType, operator) // only the service can tell
				case "certificate":
					refused("an operator", w.client, http.StatusUnauthorized, operator)
					refused("root on the unix socket", w.local(), http.StatusUnauthorized)
					passes("a node", node)
				}
				refused("no credential", w.client, http.StatusUnauthorized)
				if want != "certificate" {
					refused("a node", node, http.StatusUnauthorized)
				}
				if want == "viewer" || want == "operator" {
					if slices.Contains(forTacker, id) {
						passes("Tacker", w.client, tacker)
					} else {
						refused("Tacker", w.client, http.StatusForbidden, tacker)
					}
					refused("a false token", w.client, http.StatusUnauthorized, "Authorization: Bearer a.b")
					refused("another scheme", w.client, http.StatusUnauthorized, "Authorization: Basic "+w.operator)
				}
			})
		}
	}
	if seen != len(policy) {
		t.Errorf("the document has %d operations, the policy %d", seen, len(policy))
	}
}

func TestRefusalsSayHowToAuthenticate(t *testing.T) {
	w := newWorld(t)
	a := w.call(w.client, "GET", "/v1/nodes", "")
	if a.header.Get("WWW-Authenticate") == "" || a.problem.Type != wire.ProblemUnauthorized || a.problem.Instance != "/v1/nodes" {
		t.Errorf("%v %+v", a.header, a.problem)
	}
}
