package clusteraccess_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi/kubeapitest"
	"github.com/nodehitch/nodehitch/agent/role/clusteraccess"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	account = "/api/v1/namespaces/kube-system/serviceaccounts/nodehitch-vim"
	role    = "/apis/rbac.authorization.k8s.io/v1/clusterroles/nodehitch-vim"
	binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/nodehitch-vim"
)

const year = 365 * 24 * time.Hour

// everything is what the first pass does.
var everything = []string{"PATCH " + account, "PATCH " + role, "PATCH " + binding, "POST " + account + "/token"}

type rig struct {
	*testing.T
	api  *kubeapitest.Server
	m    *hosttest.Machine
	step converge.Step
	doc  *api.NodeConfig
	now  time.Time
}

func owner(t *testing.T) *rig {
	r := &rig{T: t, api: kubeapitest.New(t), m: hosttest.New(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	r.m.Files[kubeapi.AdminKubeconfig] = hosttest.FileState{Content: r.api.Kubeconfig(""), Mode: 0o600}
	r.api.Now = func() time.Time { return r.now }
	r.doc = &api.NodeConfig{APIVersion: api.NodeConfigV1, Generation: 1, Role: api.RoleMaster, ClusterAccess: &api.ClusterAccessSection{Role: api.ClusterAccessTacker}}
	r.restart()
	return r
}

func (r *rig) restart() {
	r.step = clusteraccess.New(clusteraccess.Options{Host: r.m.Host(), RequestLimit: 5 * time.Second, Now: func() time.Time { return r.now }})
}

func (r *rig) pass(confirmed bool) *converge.Report {
	report := converge.New(r.step).Converge(r.Context(), r.doc, converge.Options{Confirmed: confirmed})
	return &report
}

// expect returns the token that a pass reports; no message may have it.
func (r *rig) expect(want string, parts ...string) (token string, until time.Time) {
	r.Helper()
	report := r.pass(true)
	c := report.Condition(api.ConditionClusterAccessReady)
	if got := string(c.Status) + " " + c.Reason; got != want {
		r.Fatalf("the condition is %s (%s), want %s", got, c.Message, want)
	}
	for _, part := range parts {
		if !strings.Contains(c.Message, part) {
			r.Errorf("the message %q does not say %q", c.Message, part)
		}
	}
	for _, result := range report.Results {
		for _, text := range append(result.Done, c.Message) {
			if strings.Contains(text, "secret-token") {
				r.Errorf("it has the token: %s", text)
			}
		}
	}
	if report.Cluster == nil {
		return "", time.Time{}
	}
	return report.Cluster.Token, *report.Cluster.TokenExpiresAt
}

func (r *rig) did(want ...string) {
	r.Helper()
	if got := r.api.Did(); !slices.Equal(got, want) {
		r.Errorf("did %q, want %q", got, want)
	}
}

func TestTheAccountHasItsRightsAndAToken(t *testing.T) {
	r := owner(t)
	token, until := r.expect("True AccessGranted", "role tacker")
	if token == "" || !until.Equal(r.now.Add(year)) {
		t.Errorf("the token is %q until %s", token, until)
	}
	r.did(everything...)
	for range 3 {
		if again, _ := r.expect("True AccessGranted"); again != token {
			t.Errorf("the token is %q after %q", again, token)
		}
	}
	r.did()
	b := r.api.Get(binding)
	text, _ := json.Marshal([]any{b["roleRef"], b["subjects"]})
	if want := `[{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"nodehitch-vim"},[{"kind":"ServiceAccount","name":"nodehitch-vim","namespace":"kube-system"}]]`; string(text) != want {
		t.Errorf("the binding is %s", text)
	}
}

// No rule is wider than its line, and the rights to become somebody else are in none.
func TestTheRightsOfTacker(t *testing.T) {
	r := owner(t)
	r.expect("True AccessGranted")
	text, err := json.Marshal(r.api.Get(role)["rules"])
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{`"*"`, "escalate", "bind\"", "impersonate", "serviceaccounts/token", "pods/exec", "deletecollection", "nonResourceURLs"} {
		if strings.Contains(string(text), word) {
			t.Errorf("the rules have %s", word)
		}
	}
	for _, word := range []string{"namespaces", "pods", "services", "endpoints", "deployments", "deployments/scale", "configmaps", "secrets", "persistentvolumeclaims", "nodes"} {
		if !strings.Contains(string(text), `"`+word+`"`) {
			t.Errorf("the rules have no %s", word)
		}
	}
}

func TestTheRightsChangeWithTheSection(t *testing.T) {
	r := owner(t)
	first, _ := r.expect("True AccessGranted")
	r.did(everything...)
	r.doc.ClusterAccess.Role = api.ClusterAccessAdmin
	token, _ := r.expect("True AccessGranted", "cluster-admin")
	if token != first {
		t.Error("the token has changed with the rights")
	}
	r.did("PATCH " + role)
	if text, _ := json.Marshal(r.api.Get(role)["rules"]); !strings.Contains(string(text), `"nonResourceURLs":["*"]`) {
		t.Errorf("the rules are %s", text)
	}
	r.doc.ClusterAccess.Role = api.ClusterAccessTacker
	r.expect("True AccessGranted", "tacker")
	if text, _ := json.Marshal(r.api.Get(role)["rules"]); strings.Contains(string(text), `"*"`) {
		t.Errorf("what was granted stays: %s", text)
	}
}

func TestTheTokenIsRenewedInTime(t *testing.T) {
	r := owner(t)
	first, _ := r.expect("True AccessGranted")
	r.did(everything...)
	r.now = r.now.Add(8 * 30 * 24 * time.Hour)
	if token, _ := r.expect("True AccessGranted"); token != first {
		t.Error("it was renewed too soon")
	}
	r.did()
	for _, by := range []time.Duration{5 * 24 * time.Hour, 2 * year, -3 * year} { // soon; years later; the clock was set back
		r.now = r.now.Add(by)
		token, until := r.expect("True AccessGranted")
		if token == first || !until.Equal(r.now.Add(year)) {
			t.Errorf("the token is %q until %s, at %s", token, until, r.now)
		}
		first = token
		r.did("POST " + account + "/token")
	}
}

// An API server may give less than what is asked for.
func TestAShortTokenIsRenewedByItsOwnLife(t *testing.T) {
	r := owner(t)
	r.api.Lifetime = 3 * time.Hour
	first, until := r.expect("True AccessGranted")
	if !until.Equal(r.now.Add(3 * time.Hour)) {
		t.Errorf("it ends at %s", until)
	}
	r.now = r.now.Add(119 * time.Minute)
	if token, _ := r.expect("True AccessGranted"); token != first {
		t.Error("it was renewed too soon")
	}
	r.now = r.now.Add(time.Minute)
	if token, _ := r.expect("True AccessGranted"); token == first {
		t.Error("it was not renewed")
	}
}

func TestWhatOthersChangedIsRepaired(t *testing.T) {
	r := owner(t)
	first, _ := r.expect("True AccessGranted")
	r.did(everything...)
	o := r.api.Get(role)
	o["rules"] = []any{}
	r.api.Put(role, o)
	r.expect("True AccessGranted")
	r.did("PATCH " + role)
	r.api.Remove(binding)
	r.expect("True AccessGranted")
	r.did("PATCH " + binding)
	r.api.Remove(account) // which ends its tokens
	if token, _ := r.expect("True AccessGranted"); token == first {
		t.Error("the token is that of the account that was deleted")
	}
	r.did("PATCH "+account, "POST "+account+"/token")
}

func TestATokenIsReportedWhileTheAPIServerIsDown(t *testing.T) {
	r := owner(t)
	first, _ := r.expect("True AccessGranted")
	r.api.Refuse["GET "+account] = func(w http.ResponseWriter) {
		kubeapitest.Refusal(w, http.StatusServiceUnavailable, "ServiceUnavailable", "not now")
	}
	if token, _ := r.expect("False ClusterNotInstalled"); token != first {
		t.Errorf("it reports %q", token)
	}
	r.doc.ClusterAccess = nil
	if report := r.pass(true); report.Cluster != nil || report.Condition(api.ConditionClusterAccessReady) != nil {
		t.Errorf("without a section it reports %+v", report.Cluster)
	}
}

func TestAStoredDocumentGrantsNothing(t *testing.T) {
	r := owner(t)
	if c := r.pass(false).Condition(api.ConditionClusterAccessReady); c.Reason != api.ReasonWaitingForController {
		t.Errorf("%+v", c)
	}
	r.did()
}

func TestACrashBeforeEachChange(t *testing.T) {
	for n := range len(everything) + 1 {
		r := owner(t)
		p, err := r.step.Plan(t.Context(), r.doc)
		if err != nil || len(p.Actions) != len(everything) {
			t.Fatalf("%d actions, %v", len(p.Actions), err)
		}
		for _, a := range p.Actions[:n] {
			if err := a.Do(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		r.restart()
		if token, _ := r.expect("True AccessGranted"); token == "" {
			t.Error("there is no token")
		}
		want := everything
		if n == len(everything) { // the token is lost with the agent
			want = append(slices.Clone(want), everything[n-1])
		}
		r.did(want...)
		r.expect("True AccessGranted")
		r.did()
	}
}
