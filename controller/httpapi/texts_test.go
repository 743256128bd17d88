package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/plain"
)

// A node is not trusted: no text of it can do anything where it is shown.
func TestTextsOfNodesDoNothing(t *testing.T) {
	w := newWorld(t)
	node, _ := w.enroll()
	const harmful = "a\x1b[2J\u202e\u009b31m\x7fb"
	status := wire.NodeStatus{Epoch: 1, ObservedGeneration: 1, ObservedDigest: harmful, LastFailedCondition: harmful,
		Conditions:   []wire.Condition{{Type: "Harmful", Status: wire.ConditionFalse, Reason: "R", Message: harmful, LastTransitionTime: time.Now()}},
		Facts:        wire.Facts{Hostname: harmful, BootID: harmful, AgentVersion: harmful},
		Activity:     &wire.Activity{Condition: harmful, Summary: harmful, StartedAt: time.Now()},
		AgentUpgrade: &wire.AgentUpgrade{ManagedBy: wire.ManagedByController, Reason: "Failed", Version: harmful, Message: harmful},
	}
	body, err := json.Marshal(status)
	w.must(err)
	if a := w.call(node, "PUT", "/v1/node/status", string(body)); a.status != http.StatusNoContent {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, path := range []string{"/v1/nodes/" + serverID, "/v1/nodes", "/v1/events", "/v1/vnf_instances/" + instanceID} {
		a := w.as(w.viewer, "GET", path, "")
		var value any
		if err := json.Unmarshal([]byte(a.body), &value); err != nil || a.status != http.StatusOK {
			t.Fatalf("%s: %d, %v", path, a.status, err)
		}
		if strings.Contains(a.body, `\u001b`) || plain.Text(a.body) != a.body {
			t.Errorf("%s has text that does something: %s", path, a.body)
		}
	}
	if a := w.as(w.viewer, "GET", "/v1/nodes/"+serverID, ""); strings.Count(a.body, "a?[2J??31m?b") < 7 {
		t.Errorf("texts are missing: %s", a.body)
	}
}
