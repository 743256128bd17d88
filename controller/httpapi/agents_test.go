package httpapi_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/nodehitch/nodehitch/controller/httpapi"
	"github.com/nodehitch/nodehitch/controller/store"
	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/version"
)

// agent is what the record of the node contains of its agent.
func (w *world) agent() (agent *wire.Agent) {
	w.t.Helper()
	w.must(w.Store.View(func(t *store.Tx) error {
		n, _, err := t.Nodes().Get(serverID)
		agent = n.Agent
		return err
	}))
	return agent
}

func TestAPollSaysWhatTheAgentUnderstands(t *testing.T) {
	w := newWorld(t)
	node, _ := w.enroll()
	if w.agent() != nil {
		t.Fatalf("an agent that never polled is %+v", w.agent())
	}
	var old wire.NodeConfig
	w.ok(w.call(node, "GET", "/v1/node/config", "", `Nodehitch-Agent: v0.1; sections="proxy"`), http.StatusOK, &old)
	if old.Storage != nil || old.Proxy == nil {
		t.Errorf("an agent that understands the proxy alone is given %+v", old)
	}
	var first wire.NodeConfig
	a := w.call(node, "GET", "/v1/node/config", "", `If-None-Match: "`+old.Digest()+`"`)
	w.ok(a, http.StatusOK, &first)
	if first.Storage == nil || !w.agent().Equal(wire.FirstAgent()) {
		t.Errorf("an agent that says nothing is %+v and given %+v; want the first release's sections", w.agent(), first)
	}
	next := wire.FirstAgent()
	next.Version = "v0.2"
	held := w.hold(node, "/v1/node/config", "If-None-Match: "+a.header.Get("ETag"), "Nodehitch-Agent: "+next.Header())
	eventually(t, "the agent of the held poll is noted", func() bool {
		said := w.Lifecycle.Nodes.Presence.Said(serverID)
		return said != nil && said.Version == "v0.2"
	})
	// A poll of before the agent was replaced does not take that back.
	w.ok(w.call(node, "GET", "/v1/node/config", "", `Nodehitch-Agent: v0.1; sections="proxy"`), http.StatusOK, nil)
	if a := soon(t, held); a.status != http.StatusOK || w.agent().Version != "v0.1" {
		t.Errorf("the held poll is answered with %d, and the agent is %+v", a.status, w.agent())
	}
}

func TestAMalformedAgentHeaderChangesNothing(t *testing.T) {
	w := newWorld(t)
	node, _ := w.enroll()
	for _, header := range []string{"", "v1", `v1; sections="Proxy"`, `v1; sections="` + strings.Repeat("a", 4000) + `"`, `v1; sections="proxy", v1; sections="proxy"`, "hunter2 é"} {
		a := w.call(node, "GET", "/v1/node/config", "", "Nodehitch-Agent: "+header)
		if a.status != http.StatusBadRequest || a.problem.Type != wire.ProblemInvalid || strings.Contains(a.body, "hunter2") {
			t.Errorf("%.60q: %d %s, want it refused", header, a.status, a.body)
		}
		if header != "" && !strings.Contains(a.body, "Nodehitch-Agent") {
			t.Errorf("%.60q: %s does not name the header", header, a.body)
		}
	}
	if w.agent() != nil {
		t.Errorf("the record says %+v", w.agent())
	}
}

// newer is a status of an agent that knows more than this controller: a member and a
// reason more at each place.
const newer = `{"epoch": 1, "observedGeneration": 1, "observedDigest": "x", "rebootWanted": {"since": [1, null]},
	"conditions": [{"type": "TimeSynced", "status": "False", "reason": "NoServerAnswers", "lastTransitionTime": "2030-01-31T12:00:00Z", "severity": "Low"}],
	"activity": {"condition": "TimeSynced", "summary": "asks", "startedAt": "2030-01-31T12:00:00Z", "percent": 7},
	"facts": {"hostname": "h", "virtualization": "kvm"}}`

func TestAStatusOfANewerAgentIsTaken(t *testing.T) {
	w := newWorld(t)
	node, _ := w.enroll()
	w.ok(w.call(node, "PUT", "/v1/node/status", newer), http.StatusNoContent, nil)
	var shown wire.Node
	a := w.as(w.viewer, "GET", "/v1/nodes/"+serverID, "")
	w.ok(a, http.StatusOK, &shown)
	c := shown.Status.Condition("TimeSynced")
	if c == nil || c.Reason != "NoServerAnswers" || shown.Status.Facts.Hostname != "h" {
		t.Errorf("the status is kept as %+v", shown.Status)
	}
	if strings.Contains(a.body, "rebootWanted") || strings.Contains(a.body, "severity") {
		t.Errorf("what is not known here is kept: %s", a.body)
	}
}

func TestAStatusIsBounded(t *testing.T) {
	w := newWorld(t)
	node, _ := w.enroll()
	condition := `{"type": "TimeSynced", "status": "False", "reason": "NoServerAnswers", "lastTransitionTime": "2030-01-31T12:00:00Z", "severity": "Low"}`
	for what, change := range map[string][2]string{
		"a type with a space":        {`"TimeSynced", "status"`, `"Time Synced", "status"`},
		"a long type":                {`"TimeSynced", "status"`, `"` + strings.Repeat("T", 65) + `", "status"`},
		"a reason that is a line":    {`"NoServerAnswers"`, `"No\nServer"`},
		"an empty reason":            {`"NoServerAnswers"`, `""`},
		"a long reason":              {`"NoServerAnswers"`, `"` + strings.Repeat("N", 65) + `"`},
		"a status that is no status": {`"False"`, `"Perhaps"`},
		"33 conditions":              {condition, condition + strings.Repeat(","+condition, 32)},
		"a member given twice":       {`"rebootWanted"`, `"epoch": 2, "rebootWanted"`},
		"a depth without end":        {`[1, null]`, strings.Repeat("[", 200) + strings.Repeat("]", 200)},
		"300 KiB":                    {`[1, null]`, `"` + strings.Repeat("x", 300<<10) + `"`},
	} {
		body := strings.Replace(newer, change[0], change[1], 1)
		if body == newer {
			t.Fatalf("%s: nothing was changed", what)
		}
		if a := w.call(node, "PUT", "/v1/node/status", body); a.status != http.StatusBadRequest && a.status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}
}

// Anywhere else, to ignore what is not known would hide a mistake. What is open on purpose
// (Tacker's parameters) says so. The facts of a status are sent with an enrollment, too.
func TestOnlyAStatusMayHoldWhatIsNotKnown(t *testing.T) {
	document, err := httpapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	var check func(operation, at string, s *openapi3.SchemaRef)
	check = func(operation, at string, s *openapi3.SchemaRef) {
		if s == nil || s.Value == nil {
			return
		}
		if len(s.Value.Properties) > 0 {
			checked++
			open, may := s.Value.AdditionalProperties.Has == nil, operation == "putNodeStatus" || operation == "enroll" && at == "/facts"
			if open != may {
				t.Errorf("%s: %s ignores members that it does not know: %v, want %v", operation, at, open, may)
			}
		}
		for name, property := range s.Value.Properties {
			check(operation, at+"/"+name, property)
		}
		for _, part := range s.Value.AllOf {
			check(operation, at, part)
		}
		check(operation, at+"/0", s.Value.Items)
	}
	for _, path := range document.Paths.Map() {
		for _, op := range path.Operations() {
			if op.RequestBody != nil && op.RequestBody.Value.Content["application/json"] != nil {
				check(op.OperationID, "", op.RequestBody.Value.Content["application/json"].Schema)
			}
		}
	}
	if checked < 10 {
		t.Errorf("%d schemas were checked", checked)
	}
}

// carry puts a program into the agent directory that says that it is of this version.
func (w *world) carry(arch, version string) (sha string, size int) {
	w.t.Helper()
	program := "\x7fELF … nodehitch-version<" + version + "> …"
	w.write("nodehitch-agent-"+arch, program)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(program))), len(program)
}

// converged has the node report as an agent that upgrades itself.
func (w *world) converged(node *http.Client, agentVersion string) {
	w.t.Helper()
	var config wire.NodeConfig
	w.ok(w.call(node, "GET", "/v1/node/config", "", "Nodehitch-Agent: "+upgradable(agentVersion)), http.StatusOK, &config)
	s := wire.NodeStatus{Epoch: config.Epoch, ObservedGeneration: config.Generation, ObservedDigest: config.Digest(), AppliedGeneration: config.Generation, AppliedDigest: config.Digest(),
		Facts: wire.Facts{AgentVersion: agentVersion}, AgentUpgrade: &wire.AgentUpgrade{ManagedBy: wire.ManagedByController, Reason: wire.UpgradeUpToDate}}
	for _, each := range append([]string{wire.ConditionReady}, config.ConditionTypes()...) {
		s.Conditions = append(s.Conditions, wire.Condition{Type: each, Status: wire.ConditionTrue, Reason: wire.ReasonReady, LastTransitionTime: time.Now()})
	}
	text, err := json.Marshal(s)
	w.must(err)
	w.ok(w.call(node, "PUT", "/v1/node/status", string(text)), http.StatusNoContent, nil)
}

// upgradable is what an agent for amd64 says of itself.
func upgradable(agentVersion string) string {
	a := wire.ThisAgent(agentVersion)
	a.Architecture = "amd64"
	return a.Header()
}

// wantedOf is what an answer says of the wanted agent.
func wantedOf(a answer) string {
	return strings.TrimSpace(a.header.Get("Nodehitch-Agent-Version") + " " + a.header.Get("Nodehitch-Agent-Sha256") + " " + a.header.Get("Nodehitch-Agent-Size"))
}

func TestAHeldPollIsToldWhichAgentIsWanted(t *testing.T) {
	w := newWorld(t)
	node, _ := w.enroll()
	w.converged(node, "v0.1.0")
	sha, size := w.carry("amd64", version.Version)
	before := w.call(node, "GET", "/v1/node/config", "", "Nodehitch-Agent: "+upgradable("v0.1.0"))
	if got := wantedOf(before); got != "" {
		t.Fatalf("before anybody asks a poll is told %q", got)
	}
	known := "If-None-Match: " + before.header.Get("ETag")
	held := w.hold(node, "/v1/node/config", known, "Nodehitch-Agent: "+upgradable("v0.1.0"))
	if a := w.as(w.operator, "POST", "/v1/agents/upgrade", `{"version": "v9"}`); a.status != http.StatusConflict || a.problem.Type != wire.ProblemAgentTooNew {
		t.Errorf("a version that is not known to be older: %d %s", a.status, a.body)
	}
	var rollout wire.AgentRollout
	w.ok(w.as(w.operator, "POST", "/v1/agents/upgrade", `{}`), http.StatusOK, &rollout)
	if rollout.State != wire.RolloutProgressing || len(rollout.InFlight) != 1 || rollout.StartedBy == "" {
		t.Errorf("%+v", rollout)
	}
	want := fmt.Sprintf("%s %s %d", version.Version, sha, size)
	a := soon(t, held)
	if a.status != http.StatusNotModified || wantedOf(a) != want || a.header.Get("ETag") != before.header.Get("ETag") {
		t.Errorf("the held poll is answered with %d, %q, ETag %s; want 304, %q and no other document", a.status, wantedOf(a), a.header.Get("ETag"), want)
	}
	// What it was told does not answer the next poll at once, and is told again at its end.
	held = w.hold(node, "/v1/node/config?wait=1s", known, "Nodehitch-Agent: "+upgradable("v0.1.0"))
	if a := soon(t, held); a.status != http.StatusNotModified || wantedOf(a) != want {
		t.Errorf("the next poll: %d %q", a.status, wantedOf(a))
	}
	if a := w.call(node, "GET", "/v1/node/config?wait=1ms", "", known, "Nodehitch-Agent: "+upgradable(version.Version)); wantedOf(a) != "" {
		t.Errorf("the new agent is told %q", wantedOf(a))
	}
	w.carry("amd64", "v9-newer-than-this")
	if a := w.call(node, "GET", "/v1/node/config", "", "Nodehitch-Agent: "+upgradable("v0.1.0")); wantedOf(a) != "" {
		t.Errorf("a node is told %q, which is not there to download", wantedOf(a))
	}
	w.carry("amd64", version.Version)
	w.ok(w.as(w.operator, "POST", "/v1/agents/pause", ""), http.StatusOK, &rollout)
	if a := w.call(node, "GET", "/v1/node/config", "", "Nodehitch-Agent: "+upgradable("v0.1.0")); wantedOf(a) != "" || rollout.State != wire.RolloutPaused {
		t.Errorf("while it is %s a node is told %q", rollout.State, wantedOf(a))
	}
}

func TestTheAgentsCanBeWatched(t *testing.T) {
	w := newWorld(t)
	node, _ := w.enroll()
	w.carry("amd64", version.Version)
	var rollout wire.AgentRollout
	first := w.as(w.viewer, "GET", "/v1/agents", "")
	w.ok(first, http.StatusOK, &rollout)
	if rollout.State != wire.RolloutIdle || len(rollout.Carried) != 1 || rollout.Carried[0].Version != version.Version || len(rollout.Nodes) != 1 {
		t.Errorf("%+v", rollout)
	}
	held := w.hold(w.client, "/v1/agents?wait=30s", "Authorization: Bearer "+w.viewer, "If-None-Match: "+first.header.Get("ETag"))
	w.converged(node, "v0.1.0")
	w.ok(soon(t, held), http.StatusOK, &rollout)
	if len(rollout.Nodes) != 1 || rollout.Nodes[0].Version != "v0.1.0" || rollout.Nodes[0].State != wire.AgentWaiting {
		t.Errorf("%+v", rollout.Nodes)
	}
}

func TestAPollIsToldWhereTheControllerIs(t *testing.T) {
	w := newWorld(t, func(o *httpapi.Options) { o.ControllerURLs = []string{"https://a.example:8443", "https://b.example"} })
	node, _ := w.enroll()
	known := w.call(node, "GET", "/v1/node/config", "")
	same := w.call(node, "GET", "/v1/node/config?wait=1ms", "", "If-None-Match: "+known.header.Get("ETag"))
	for _, a := range []answer{known, same} {
		if got := a.header.Get("Nodehitch-Controller-Urls"); got != "https://a.example:8443 https://b.example" {
			t.Errorf("an answer with %d says %q", a.status, got)
		}
	}
	silent := newWorld(t)
	node, _ = silent.enroll()
	if a := silent.call(node, "GET", "/v1/node/config", ""); len(a.header.Values("Nodehitch-Controller-Urls")) > 0 {
		t.Errorf("a controller that is told of none says %v", a.header)
	}
}
