package enrollment

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/storetest"
	"github.com/nodehitch/nodehitch/controller/traffic/ratelimit"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestAnExpectedServerEnrolls(t *testing.T) {
	w := newWorld(t)
	m := w.boot(server)
	w.Changed = func(id string) {
		if id != server || !w.node(id).Identity.Live() {
			t.Errorf("told of %q before its identity was on disk", id)
		}
		w.changed = append(w.changed, id)
	}
	wantOK(t, m.enroll())
	wantOK(t, m.call(m.chain, false))
	identity := w.node(server).Identity
	if identity.NotAfter != m.chain[0].NotAfter || identity.EnrolledAt != w.now || identity.PreviousSerial != "" {
		t.Errorf("recorded %+v", identity)
	}
	if diff := cmp.Diff([]string{server}, w.changed); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{EventEnrolled: 1}, w.events); diff != "" {
		t.Error(diff)
	}
}

// DMI prints the server id in capitals.
func TestServerIDInCapitals(t *testing.T) {
	w := newWorld(t)
	m := w.boot(strings.ToUpper(server))
	wantOK(t, m.enroll())
	m.id = server
	wantOK(t, m.call(m.chain, false))
}

func TestServersThatAreNotExpected(t *testing.T) {
	const other = "22222222-0000-4000-8000-000000000002"
	for name, c := range map[string]func(w *world){
		"before its topology":     func(w *world) { w.update(func(tx *store.Tx) error { return tx.Nodes().Delete(server) }) },
		"gone from the topology":  func(w *world) { w.expect(server, instance, false) },
		"of another VNF instance": func(w *world) { w.newInstance(other); w.expect(server, other, true) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c(w)
			problem := problemOf(t, w.boot(server).enroll(), api.ProblemServerNotExpected)
			if strings.Contains(problem.Detail, other) {
				t.Errorf("the answer tells of another instance: %s", problem.Detail)
			}
			if w.events[EventNotExpected] != 1 {
				t.Errorf("events %v", w.events)
			}
		})
	}
}

func TestASecondMachineCannotTakeALiveIdentity(t *testing.T) {
	w := newWorld(t)
	m, thief := w.boot(server), w.boot(server)
	wantOK(t, m.enroll())
	problem := problemOf(t, thief.enroll(), api.ProblemIdentityLive)
	if !strings.Contains(problem.Detail, "POST /v1/nodes/"+server+"/reenroll") || problem.Commands() != "`hitchctl node reenroll "+server+"`" {
		t.Errorf("it does not say what to do: %s", problem.Detail)
	}
	// Also when the machine has been silent for long: that is for an operator.
	w.now = w.now.Add(365 * 24 * time.Hour)
	wantProblem(t, thief.enroll(), api.ProblemIdentityLive)
}

// user_data has leaked, or a boot script runs twice: one of them is the server.
func TestOfManyMachinesAtOnceOneEnrolls(t *testing.T) {
	w := newWorld(t)
	w.Changed = nil
	token := w.token(instance)
	results := make(chan error, 8)
	for range cap(results) {
		m := w.boot(server)
		go func() { results <- m.enrollWith(token) }()
	}
	enrolled := 0
	for range cap(results) {
		if err := <-results; err == nil {
			enrolled++
		} else {
			wantProblem(t, err, api.ProblemIdentityLive)
		}
	}
	if enrolled != 1 {
		t.Errorf("%d machines are the server", enrolled)
	}
}

// The boot is the controller's time less what the machine says, and stays that of the enrollment.
func TestWhenTheMachineBooted(t *testing.T) {
	w := newWorld(t)
	m := w.boot(server)
	m.facts = &api.Facts{UptimeSeconds: 90}
	booted := w.now.Add(-90 * time.Second)
	for range 2 { // the answer was lost
		wantOK(t, m.enroll())
		if at := w.node(server).Identity.BootedAt; at == nil || !at.Equal(booted) {
			t.Errorf("booted at %v, expected %s", at, booted)
		}
		w.now = w.now.Add(time.Minute)
	}
	w = newWorld(t)
	wantOK(t, w.boot(server).enroll())
	if at := w.node(server).Identity.BootedAt; at != nil {
		t.Errorf("the machine of an agent that does not say it booted at %s", at)
	}
}

// The certificate was issued and its answer lost: the agent asks again with its key.
func TestALostAnswerLocksNoMachineOut(t *testing.T) {
	w := newWorld(t)
	m := w.boot(server)
	wantOK(t, m.enroll())
	first := m.chain
	w.now = w.now.Add(time.Hour)
	wantOK(t, m.enroll())
	wantOK(t, m.call(first, false))
	wantOK(t, m.call(m.chain, false))
	wantProblem(t, m.call(first, false), api.ProblemUnauthorized)
	if w.events[EventReissued] != 1 || w.events[EventEnrolled] != 1 {
		t.Errorf("events %v", w.events)
	}
	w.now = m.chain[0].NotAfter.Add(time.Second)
	wantProblem(t, m.enroll(), api.ProblemIdentityLive)
}

func TestRequestsWithAKeyThatIsNotTaken(t *testing.T) {
	w := newWorld(t)
	_, err := w.Enroll(context.Background(), w.token(instance), api.EnrollRequest{CertificateRequest: "x", ServerID: server}, remote)
	problem := problemOf(t, err, api.ProblemInvalid)
	if len(problem.InvalidParams) != 1 || problem.InvalidParams[0].Pointer != "/certificateRequest" {
		t.Errorf("faults %v", problem.InvalidParams)
	}
}

// Attestation takes its time; what changed meanwhile counts.
func TestWhatChangesDuringAttestation(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(w *world)
		problem   string
	}{
		"the server left the topology": {func(w *world) { w.expect(server, instance, false) }, api.ProblemServerNotExpected},
		"an operator revoked it":       {func(w *world) { wantOK(w.t, w.Revoke(context.Background(), server, "stolen")) }, api.ProblemRevoked},
		"another machine enrolled as it": {func(w *world) {
			w.Attestor = nil
			wantOK(w.t, w.boot(server).enroll())
		}, api.ProblemIdentityLive},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Attestor = &attestor{try: func(store.Node) error { c.meanwhile(w); return nil }}
			wantProblem(t, w.boot(server).enroll(), c.problem)
		})
	}
}

func TestJoinTokenCanBeShownAgainAndIsNotStored(t *testing.T) {
	w := newWorld(t)
	token := w.token(instance)
	if again := w.token(instance); again != token {
		t.Error("the token shown again is another one")
	}
	_, secret, _ := strings.Cut(token, ".")
	if len(secret) != 64 {
		t.Errorf("the secret has %d digits, want 256 bits", len(secret))
	}
	if bytes.Contains(storetest.Content(t, w.path), []byte(secret)) {
		t.Error("the secret is in the store")
	}
	_, err := w.JoinToken(context.Background(), "no-such-instance")
	wantProblem(t, err, api.ProblemNotFound)
}

func TestTokensThatAreRefused(t *testing.T) {
	w := newWorld(t)
	good := w.token(instance)
	id, secret, _ := strings.Cut(good, ".")
	w.newInstance(instance) // the old token is void
	flipped := "0" + secret[1:]
	if secret[0] == '0' {
		flipped = "1" + secret[1:]
	}
	for name, token := range map[string]string{
		"none":                    "",
		"only an id":              id,
		"only a secret":           "." + secret,
		"another secret":          id + "." + flipped,
		"half a secret":           id + "." + secret[:32],
		"not hexadecimal":         id + "." + strings.Repeat("z", 64),
		"void":                    good,
		"an id that was never":    strings.Repeat("0", len(id)) + "." + secret,
		"a store key's MAC of it": id + "." + "00",
	} {
		w.now = w.now.Add(time.Hour) // past the limit
		problem := problemOf(t, w.boot(server).enrollWith(token), api.ProblemUnauthorized)
		if problem.Detail != "" || problem.InvalidParams != nil {
			t.Errorf("%s: the answer says more than no: %+v", name, problem)
		}
	}
	// Nothing is said about the request either.
	w.now = w.now.Add(time.Hour)
	_, err := w.Enroll(context.Background(), good, api.EnrollRequest{ServerID: "unknown"}, remote)
	wantProblem(t, err, api.ProblemUnauthorized)
}

func TestGuessersAreSlowedDownAndNeighboursAreNot(t *testing.T) {
	w := newWorld(t)
	for range refusedBurst {
		wantProblem(t, w.boot(server).enrollWith("guess"), api.ProblemUnauthorized)
	}
	err := w.boot(server).enrollWith("guess")
	wantProblem(t, err, api.ProblemTooMany)
	var limited *ratelimit.Exceeded
	if !errors.As(err, &limited) || limited.RetryAfter != refusedEvery {
		t.Fatalf("%v, want an Exceeded to retry after %v", err, refusedEvery)
	}
	if w.events[EventLimited] != 1 || w.events[EventBadToken] != refusedBurst {
		t.Errorf("events %v", w.events)
	}
	wantOK(t, w.boot(server).enroll()) // from the same address
	w.now = w.now.Add(limited.RetryAfter)
	wantProblem(t, w.boot(server).enrollWith("guess"), api.ProblemUnauthorized)
}

func TestLimiterTellsRemotesApartAndIsBounded(t *testing.T) {
	now := time.Unix(0, 0)
	l := newLimiter(time.Minute, 1, 3)
	for _, c := range []struct {
		remote string
		ok     bool
	}{
		{"192.0.2.1", true},
		{"192.0.2.1", false},
		{"::ffff:192.0.2.1", false}, // the same, as a dual-stack socket prints it
		{"192.0.2.2", true},
		{"2001:db8::1", true},
		{"2001:db8::ffff:2", false}, // the same /64
		{"192.0.2.1", false},
		{"2001:db8:0:1::1", true}, // a fourth: 192.0.2.2 is forgotten, unheard of for longest
		{"192.0.2.1", false},
		{"192.0.2.2", true},
	} {
		if err := l.take(netip.MustParseAddr(c.remote), now); (err == nil) != c.ok {
			t.Errorf("%s: %v, want accepted: %v", c.remote, err, c.ok)
		}
		if l.Len() > 3 {
			t.Fatalf("%d remotes are remembered", l.Len())
		}
	}
	if err := l.take(netip.Addr{}, now); err != nil {
		t.Errorf("an unknown remote: %v", err)
	}
}
