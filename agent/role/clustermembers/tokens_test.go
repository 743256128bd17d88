package clustermembers_test

import (
	"encoding/base64"
	"net/http"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/machine/kubeapi/kubeapitest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// plain is a field of a Secret.
func (r *rig) plain(secret, field string) string {
	r.Helper()
	data, _ := r.api.Get(secrets + secret)["data"].(kubeapitest.Object)
	text, _ := data[field].(string)
	value, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		r.Fatal(err)
	}
	return string(value)
}

func TestEachMemberWithoutANodeHasAToken(t *testing.T) {
	r := owner(t, 3)
	r.expect("True MembersCurrent", "1 of 3 members have a Node")
	r.has("server-0", "token1", "token2")
	for field, want := range map[string]string{
		"token-id": "token1", "token-secret": "secretsecretsec1", "expiration": "2026-01-02T00:00:00Z",
		"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
		"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
	} {
		if got := r.plain("token1", field); got != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
	if kind := r.api.Get(secrets + "token1")["type"]; kind != "bootstrap.kubernetes.io/token" {
		t.Errorf("its type is %v", kind)
	}
	r.did("PATCH "+secrets+"token1", "PATCH "+secrets+"token2")
	for range 2 {
		r.restart()
		r.expect("True MembersCurrent")
	}
	r.did()

	r.node(1, true)
	r.expect("True MembersCurrent", "2 of 3")
	r.did("DELETE " + secrets + "token1")
	r.drop()
	r.expect("True MembersCurrent", "2 of 2")
	r.did("DELETE " + secrets + "token2")
	r.has("server-0", "server-1")
}

// kubeadm makes the token of the master on which it makes the cluster, with its own description
// and no label.
func TestTheTokenThatKubeadmHasMadeIsDeleted(t *testing.T) {
	r := owner(t, 2)
	for _, n := range []string{"token0", "others"} {
		r.api.Put(secrets+n, kubeapitest.Object{"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token", "metadata": kubeapitest.Object{}})
	}
	r.node(1, true)
	r.expect("True MembersCurrent", "2 of 2")
	r.did("DELETE " + secrets + "token0")
	r.has("others", "server-0", "server-1")
}

func TestATokenIsRenewedInTime(t *testing.T) {
	r := owner(t, 2)
	r.expect("True MembersCurrent")
	r.did("PATCH " + secrets + "token1")
	r.now = r.now.Add(11 * time.Hour)
	r.expect("True MembersCurrent")
	r.did()
	for _, by := range []time.Duration{time.Hour, 365 * 24 * time.Hour, -100 * 24 * time.Hour} { // soon; a year later; the clock was set back
		r.now = r.now.Add(by)
		r.expect("True MembersCurrent")
		r.did("PATCH " + secrets + "token1")
		if got, want := r.plain("token1", "expiration"), r.now.Add(24*time.Hour).Format(time.RFC3339); got != want {
			t.Errorf("it ends at %s, want %s", got, want)
		}
	}
	r.api.Remove(secrets + "token1") // the cluster's token cleaner
	r.expect("True MembersCurrent")
	r.did("PATCH " + secrets + "token1")
}

// Somebody has changed a token, such as its groups.
func TestATokenThatWasChangedIsRepaired(t *testing.T) {
	r := owner(t, 2)
	r.expect("True MembersCurrent")
	r.did("PATCH " + secrets + "token1")
	o := r.api.Get(secrets + "token1")
	o["data"].(kubeapitest.Object)["auth-extra-groups"] = base64.StdEncoding.EncodeToString([]byte("system:masters"))
	r.api.Put(secrets+"token1", o)
	r.expect("True MembersCurrent")
	r.did("PATCH " + secrets + "token1")
	if got := r.plain("token1", "auth-extra-groups"); got != "system:bootstrappers:kubeadm:default-node-token" {
		t.Errorf("the groups are %s", got)
	}
}

func TestTokensOfOthersStay(t *testing.T) {
	r := owner(t, 1)
	theirs := kubeapitest.Object{"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token", "data": kubeapitest.Object{}}
	r.api.Put(secrets+"theirs", theirs)
	r.expect("True MembersCurrent")
	r.did()
}

// Who leaves must not come back by its token, listed or not.
func TestAMemberThatLeavesGetsNoToken(t *testing.T) {
	r := owner(t, 2)
	r.doc.ClusterDepartures = &api.ClusterDeparturesSection{Members: []api.ClusterServer{{ServerID: id(1)}}}
	report := r.pass(true)
	if c := report.Condition(api.ConditionClusterMembersCurrent); c.Status != api.ConditionTrue {
		t.Errorf("%+v", c)
	}
	r.did()
	r.drop()
	r.node(1, true)
	r.pass(true)
	r.node(1, false)
	r.pass(true)
	r.did() // the step that lets it leave deletes its Node
}

func TestAStoredDocumentLetsNobodyIn(t *testing.T) {
	r := owner(t, 2)
	c := r.pass(false).Condition(api.ConditionClusterMembersCurrent)
	if c.Reason != api.ReasonWaitingForController {
		t.Errorf("%+v", c)
	}
	r.did()
}

func TestAPIServersErrorsAreSaid(t *testing.T) {
	r := owner(t, 2)
	r.api.Refuse["GET /api/v1/nodes"] = func(w http.ResponseWriter) {
		kubeapitest.Refusal(w, http.StatusForbidden, "Forbidden", `nodes is forbidden: User "u" cannot list resource "nodes" in API group ""`)
	}
	r.expect("False ClusterNotInstalled", "is not allowed to list, patch and delete nodes")
	delete(r.api.Refuse, "GET /api/v1/nodes")
	r.api.Refuse["PATCH "+secrets+"token1"] = func(w http.ResponseWriter) {
		kubeapitest.Refusal(w, http.StatusConflict, "Conflict", "the object has been modified")
	}
	r.expect("False Converging", "it was changed while the agent compared it")
	delete(r.m.Files, "/etc/kubernetes/admin.conf")
	r.expect("False ClusterNotInstalled", "does not exist")
}
