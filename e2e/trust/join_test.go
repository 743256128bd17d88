package trust

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/controller/trust/enrollment"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

func TestJoinTokens(t *testing.T) {
	w := newTarget(t, loopback.Options{})
	run(t, w, []trial{
		{"join token: not the right one", "a wrong or malformed token, or one of another kind: 401 for all, with the same answer", wrongTokens},
		{"join token: of another instance", "a valid token does not enroll the server of another instance, and does not show that it exists", tokenOfAnother},
		{"join token: server that no topology names", "403 for a server that no topology names, also with a valid token", unknownServer},
		{"join token: server with a live identity", "409 for a second machine that claims an enrolled server; a retry with the same key gets its answer again", liveIdentity},
		{"join token: server revoked by hand", "a valid token does not undo a revocation", revokedServer},
		{"join token: after TERMINATE", "the token of a terminated instance enrolls no server, and its nodes are refused", terminated},
	})
}

func wrongTokens(a *attempt) {
	id, secret, _ := strings.Cut(a.w.ours.token, ".")
	otherID, otherSecret, _ := strings.Cut(a.w.other.token, ".")
	operator := a.w.Token("trust", api.ScopeOperator).Secret
	m := a.w.boot(a.w.spare())
	csr := testca.Request(m.key, nil)
	answers := map[string]bool{}
	for name, token := range map[string]string{
		"a secret with one digit changed": id + "." + flipped(secret),
		"another instance's secret":       id + "." + otherSecret,
		"another instance's id":           otherID + "." + secret,
		"an API token":                    operator,
		"the id alone":                    id,
		"an empty secret":                 id + ".",
		"a shortened secret":              id + "." + secret[:32],
		"what is no hexadecimal":          id + "." + strings.Repeat("g", len(secret)),
		"the token twice":                 a.w.ours.token + "." + secret,
		"eight kilobytes":                 strings.Repeat("a", 4096) + "." + strings.Repeat("b", 4096),
	} {
		got := m.enrollWith(token, csr)
		if got.status == http.StatusTooManyRequests {
			a.Fatal("this case has more tokens than one address may guess")
		}
		a.refused(name, got, http.StatusUnauthorized)
		got.problem.Instance = ""
		answers[fmt.Sprint(got.problem)] = true
	}
	if len(answers) != 1 {
		a.Errorf("the answers differ, and so tell what is wrong: %v", answers)
	}
	none := a.w.caller().call(http.MethodPost, "/v1/enroll", "{}")
	a.refused("no token", none, http.StatusUnauthorized)
	a.allowed("the right token", m.enroll(a.w.ours.token, nil), http.StatusCreated)
}

// flipped is the text with its last digit changed.
func flipped(secret string) string {
	last := "0"
	if strings.HasSuffix(secret, "0") {
		last = "1"
	}
	return secret[:len(secret)-1] + last
}

func tokenOfAnother(a *attempt) {
	theirs, unlisted := a.w.boot(a.w.other.spares[0]), a.w.boot(uuid.NewString())
	got := theirs.enroll(a.w.ours.token, nil)
	a.refused("the server of another instance", got, http.StatusForbidden)
	unknown := unlisted.enroll(a.w.ours.token, nil)
	if strings.ReplaceAll(got.body, theirs.id, unlisted.id) != unknown.body {
		a.Errorf("a server of another instance is answered %s, an unknown one %s", got.body, unknown.body)
	}
	a.allowed("its own token", theirs.enroll(a.w.other.token, nil), http.StatusCreated)
}

func unknownServer(a *attempt) {
	got := a.w.boot(uuid.NewString()).enroll(a.w.ours.token, nil)
	a.refused("an unknown server", got, http.StatusForbidden)
	if got.problem.Type != api.ProblemServerNotExpected {
		a.Errorf("the problem is %s", got.problem.Type)
	}
	for _, id := range []string{"", "x", "../" + a.w.ours.worker, a.w.ours.worker + " "} {
		m := a.w.boot(id)
		a.refused(fmt.Sprintf("the server id %q", id), m.enroll(a.w.ours.token, nil), http.StatusBadRequest, http.StatusForbidden)
	}
}

func liveIdentity(a *attempt) {
	m := a.w.enrolled(a.w.ours, a.w.spare())
	thief := a.w.boot(m.id)
	got := thief.enroll(a.w.ours.token, nil)
	a.refused("a second machine", got, http.StatusConflict)
	thief = a.w.boot(strings.ToUpper(m.id))
	a.refused("the same id in capitals", thief.enroll(a.w.ours.token, nil), http.StatusConflict)
	a.allowed("the first machine goes on", m.config(), http.StatusOK)
	first := m.leaf().SerialNumber
	a.allowed("its lost answer", m.enroll(a.w.ours.token, nil), http.StatusCreated)
	if m.leaf().SerialNumber.Cmp(first) == 0 {
		a.Error("the same certificate was issued twice")
	}
	a.allowed("with the answer that came later", m.config(), http.StatusOK)
}

func revokedServer(a *attempt) {
	m := a.w.enrolled(a.w.ours, a.w.spare())
	a.w.revoke(m.id)
	a.refused("the revoked machine's own key", m.enroll(a.w.ours.token, nil), http.StatusForbidden)
	a.refused("a new key", a.w.boot(m.id).enroll(a.w.ours.token, nil), http.StatusForbidden)
	if _, err := client.Read[api.Node](a.w.API.ReenrollNode(a.Context(), m.id)); err != nil {
		a.Fatal(err)
	}
	again := a.w.enrolled(a.w.ours, m.id)
	a.refused("again, with another key", a.w.boot(m.id).enroll(a.w.ours.token, nil), http.StatusConflict)
	a.allowed("the machine after reenroll", again.config(), http.StatusOK)
	a.refused("the certificate from before", m.config(), http.StatusUnauthorized, http.StatusForbidden)
}

func (w *target) revoke(id string) {
	w.t.Helper()
	if _, err := client.Read[api.Node](w.API.RevokeNode(w.t.Context(), id)); err != nil {
		w.t.Fatal(err)
	}
}

func terminated(a *attempt) {
	s := a.w.newStack(1)
	m := a.w.enrolled(s, s.worker)
	a.allowed("before", m.config(), http.StatusOK)
	op := a.w.Operate(s.instance, api.OperationRequest{Operation: api.Terminate})
	if ended := a.w.Outcome(s.instance, op); ended.State != api.Completed {
		a.Fatalf("%+v", ended)
	}
	a.refused("its node", m.config(), http.StatusForbidden)
	a.refused("its node's renewal", m.renew(), http.StatusForbidden)
	for _, id := range s.servers() {
		a.refused("its server "+id, a.w.boot(id).enroll(s.token, nil), http.StatusForbidden)
	}
}

func TestTokenGuesses(t *testing.T) {
	metrics := loopback.FreeAddress(t)
	w := newTarget(t, loopback.Options{Settings: map[string]string{"metricsListen": metrics}})
	run(t, w, []trial{{"join token: 1,000 guesses", "guesses from one address are limited, counted and logged; valid tokens from there are accepted, meanwhile and after",
		func(a *attempt) { guesses(a, metrics) }}})
}

const manyGuesses = 1000

// guesses come one after another from one address, as fast as they are answered.
func guesses(a *attempt, metrics string) {
	before := scrape(a, metrics)
	id, secret, _ := strings.Cut(a.w.ours.token, ".")
	victim, neighbour := a.w.boot(a.w.spare()), a.w.enrolled(a.w.ours, a.w.spare())
	body := asJSON(a, api.EnrollRequest{ServerID: victim.id, CertificateRequest: testca.Request(victim.key, nil)})
	line := a.w.caller()
	checked, limited := 0, 0
	for i := range manyGuesses {
		got := line.call(http.MethodPost, "/v1/enroll", body, bearer(fmt.Sprintf("%s.%s%08x", id, secret[:len(secret)-8], i)))
		a.refused("a guess", got, http.StatusUnauthorized, http.StatusTooManyRequests)
		switch got.status {
		case http.StatusUnauthorized:
			checked++
		case http.StatusTooManyRequests:
			limited++
			if got.header.Get("Retry-After") == "" {
				a.Fatal("429 without Retry-After")
			}
		}
		if i == manyGuesses/2 {
			a.allowed("a valid token meanwhile", neighbour.enroll(a.w.ours.token, nil), http.StatusCreated)
		}
	}
	// 10 at once, then one in 6 s: more than a minute's worth would be no limit.
	if checked < 10 || checked > 20 || limited != manyGuesses-checked {
		a.Errorf("%d guesses were checked and %d were not", checked, limited)
	}
	after := scrape(a, metrics)
	for result, n := range map[string]int{"bad_token": checked, "limited": limited} {
		name := `nodehitch_enrollments_total{result="` + result + `"}`
		if got := after[name] - before[name]; int(got) != n {
			a.Errorf("%s has grown by %v, want %d", name, got, n)
		}
	}
	if got := a.w.Logged("reason=" + enrollment.EventBadToken); got != checked {
		a.Errorf("the log has %d of the %d wrong tokens", got, checked)
	}
	a.allowed("the valid token from the same address", victim.enroll(a.w.ours.token, nil), http.StatusCreated)
	a.c.Figure("tokens checked", "%d", checked)
	a.c.Figure("refused unchecked (429)", "%d", limited)
}
