package trust

import (
	"bytes"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// One run uses every kind of secret: a machine boots with user_data, enrolls, installs
// packages through a proxy, formats and mounts its volume, and an operator makes mistakes
// with secrets. Then each secret is searched for wherever it must not be. Controller and
// agent log at level debug.
func TestSecrets(t *testing.T) {
	t.Parallel()
	s := newSecretive(t)
	argv := watchArgv(t)
	s.run(t)
	s.join(t)
	seen := argv()
	s.collect(t)
	run(t, s.target, []trial{
		{"secrets: argv", "no secret is in the argv of any process of the machine, sampled during the whole run", func(a *attempt) {
			a.mustNotHold("an argv", strings.Join(seen.argvs, "\n"), s.given)
			a.c.Figure("samples", "%d", seen.samples)
			a.c.Figure("command lines", "%d", len(seen.argvs))
			if !strings.Contains(strings.Join(seen.argvs, "\n"), "mkfs.ext4") {
				a.Log("mkfs was too quick to be seen")
			}
		}},
		{"secrets: logs", "no secret is in the controller's log, nor in the node's whole journal, agent and cloud-init included, at level debug", s.inLogs},
		{"secrets: every GET", "no GET of the API shows a secret to a viewer; an operator gets secrets only as join token, access to a cluster, package file and backup", s.inAnswers},
		{"secrets: refused requests", "the answer to a faulty request does not repeat the secrets in it", s.inRefusals},
		{"secrets: status and metrics", "no secret is in the agent's status, what hitchctl prints or /metrics", s.inStatus},
		{"secrets: the store", "no given secret is in store.db in plain text, nor is the seal key", s.inStore},
		{"secrets: file modes", "every file of node and controller with a secret is readable by its owner only", s.inFiles},
		{"secrets: core dumps", "controller and agent leave no core dump, and their environment has no secret", s.inProcesses},
	})
}

func (s *secretive) inLogs(a *attempt) {
	controller := string(s.Log())
	journal, err := s.node.Exec(a.Context(), "journalctl", "--no-pager", "-o", "export", "--all")
	if err != nil {
		a.Fatal(err)
	}
	cloudInit, err := s.node.Exec(a.Context(), "sh", "-c", "cat /var/log/cloud-init*.log /var/log/apt/* /var/log/dpkg.log 2>/dev/null; true")
	if err != nil {
		a.Fatal(err)
	}
	console, err := s.node.Console()
	if err != nil {
		a.Fatal(err)
	}
	for where, text := range map[string]string{"the controller's log": controller, "the node's journal": string(journal),
		"the node's other logs": string(cloudInit), "the node's console": string(console), "the worker's log": string(s.second.Log())} {
		a.mustNotHold(where, text, s.all())
	}
	for _, operation := range []string{"putInstance", "putFile", "enroll", "putNodeStatus", "postFormat", "getNodeConfig"} {
		if !strings.Contains(controller, "operation="+operation+" ") {
			a.Errorf("the controller's log has no line with %s", operation)
		}
	}
	for _, word := range []string{"level=DEBUG", "mkfs.ext4", "apt-get"} {
		if !bytes.Contains(journal, []byte(word)) {
			a.Errorf("the node's journal has no line with %s", word)
		}
	}
	a.c.Figure("log", "%d KiB", (len(controller)+len(journal)+len(cloudInit)+len(console))>>10)
}

// real fills a path of the document with what there is.
func (s *secretive) real(a *attempt, d demand) string {
	operations, err := client.Read[api.OperationList](s.API.ListOperations(a.Context(), nil))
	if err != nil || len(operations.Items) == 0 {
		a.Fatal(operations, err)
	}
	instance := s.instance
	if d.id == "getClusterAccess" {
		instance = s.joined
	}
	return strings.NewReplacer("{vnfInstanceId}", instance, "{sequence}", strconv.FormatInt(operations.Items[0].Sequence, 10), "{nodeId}", s.node.ServerID(), "{volumeId}", s.volume,
		"{path}", "Scripts/install.sh", "{arch}", "amd64", "{sha256}", zeros).Replace(d.template)
}

func (s *secretive) inAnswers(a *attempt) {
	line, gets := s.caller(), 0
	for _, d := range demands(a) {
		if d.method != http.MethodGet || d.id == "getAgent" {
			continue
		}
		path := s.real(a, d)
		for who, token := range map[string]string{"a viewer": s.viewer, "an operator": s.operator} {
			got := line.call(http.MethodGet, path, "", bearer(token))
			gets++
			if (d.need == "viewer" || d.need == "operator" && who == "an operator") && got.status != http.StatusOK {
				a.Errorf("GET %s by %s: %d %s", path, who, got.status, got.body)
			}
			hidden := s.all()
			if who == "an operator" {
				switch d.id {
				case "getJoinToken":
					delete(hidden, "the join token")
				case "getClusterAccess":
					delete(hidden, "the token of the cluster's VIM")
				case "getFile", "getBackup": // a backup is a copy of blobs/, among others
					delete(hidden, "a package file")
				}
			}
			a.mustNotHold("GET "+path+" by "+who, got.body, hidden)
		}
	}
	a.c.Figure("answers", "%d", gets)
	if got := line.call(http.MethodGet, "/v1/vnf_instances/"+s.instance, "", bearer(s.viewer)); strings.Count(got.body, "[redacted]") < 7 {
		a.Errorf("the instance does not show that something is redacted: %s", got.body)
	}
}

func (s *secretive) inRefusals(a *attempt) {
	line, path := s.caller(), "/v1/vnf_instances/"+s.instance
	password := s.given["the master's password"]
	mangled := func(old, with string) string {
		if !strings.Contains(s.body, old) {
			a.Fatalf("%s is not in the request", old)
		}
		return strings.Replace(s.body, old, with, 1)
	}
	for name, body := range map[string]string{
		"a list for a password":     mangled(strconv.Quote(password), "["+strconv.Quote(password)+"]"),
		"an object for a password":  mangled(strconv.Quote(password), `{"value":`+strconv.Quote(password)+`}`),
		"a list for a proxy":        mangled(`"http_proxy":`, `"http_proxy":["`+s.given["the HTTP proxy's password"]+`"],"x":`),
		"the whole cut off":         s.body[:len(s.body)-2],
		"the whole twice":           s.body + s.body,
		"an unknown member":         strings.TrimSuffix(s.body, "}") + `,"password":` + strconv.Quote(password) + `}`,
		"a duplicate member":        strings.TrimSuffix(s.body, "}") + `,"additionalParams":{"password":` + strconv.Quote(password) + `}}`,
		"a password beside its key": mangled(`"password":`+strconv.Quote(password), `"passwort":`+strconv.Quote(password)+`,"password":1`),
	} {
		got := line.call(http.MethodPut, path, body, bearer(s.operator))
		a.refused(name, got, http.StatusBadRequest)
		a.mustNotHold("the answer to "+name, got.body, s.all())
	}
	// Tokens where they do not belong.
	for name, got := range map[string]answer{
		"a token in the query":   line.call(http.MethodGet, "/v1/nodes?access_token="+s.operator, ""),
		"a token in the path":    line.call(http.MethodGet, "/v1/nodes/"+uuid.NewString()+"?token="+s.operator, "", bearer(s.operator)),
		"a token as Basic":       line.call(http.MethodGet, "/v1/nodes", "", "Authorization: Basic "+s.operator),
		"a join token as API's":  line.call(http.MethodGet, "/v1/nodes", "", bearer(s.joinToken)),
		"an API token to enroll": line.call(http.MethodPost, "/v1/enroll", `{"serverId":"`+s.node.ServerID()+`","certificateRequest":"x"}`, bearer(s.operator)),
		"a join token twice":     line.call(http.MethodPost, "/v1/enroll", `{"serverId":"`+s.node.ServerID()+`","certificateRequest":"`+s.joinToken+`"}`, bearer(s.joinToken)),
	} {
		a.refused(name, got, http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusConflict)
		a.mustNotHold("the answer to "+name, got.body, s.all())
	}
	a.mustNotHold("the controller's log of them", string(s.Log()), s.all())
}

func (s *secretive) inStatus(a *attempt) {
	for _, look := range [][]string{{"cat", "/run/nodehitch/agent-status.json"}, {"nodehitch-agent", "status"}, {"nodehitch-agent", "status", "-o", "json"},
		{"systemctl", "status", "--no-pager", "nodehitch-agent"}, {"systemctl", "show", "nodehitch-agent"}} {
		out, err := s.node.Exec(a.Context(), look...)
		if err != nil {
			a.Error(err)
		}
		a.mustNotHold(strings.Join(look, " "), string(out), s.all())
	}
	status, err := os.ReadFile(s.second.StatusFile())
	if err != nil {
		a.Error(err)
	}
	a.mustNotHold("the worker's status file", string(status), s.all())
	for _, args := range [][]string{{"get", "instances", "-o", "yaml"}, {"describe", "instance", s.instance}, {"describe", "node", s.node.ServerID()},
		{"get", "operations", "-o", "json"}, {"get", "volumes", "-o", "json"}, {"get", "tokens"}} {
		out, err := s.Hitchctl(args...)
		if err != nil {
			a.Error(err)
		}
		a.mustNotHold("hitchctl "+strings.Join(args, " "), string(out), s.all())
	}
	metrics := &caller{t: a, base: "http://10.10.0.1:8643", http: &http.Client{Transport: &http.Transport{DialContext: s.lab.Dial, DisableKeepAlives: true}}}
	got := metrics.call(http.MethodGet, "/metrics", "")
	a.allowed("metrics", got, http.StatusOK)
	a.mustNotHold("/metrics", got.body, s.all())
}
