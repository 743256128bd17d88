package trust

import (
	"errors"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// A poll is held for longer than any of these cases may take, so its answer comes from the
// event, not from the end of the hold.
func TestRevocation(t *testing.T) {
	w := newTarget(t, loopback.Options{Settings: map[string]string{"pollSeconds": "300"}})
	run(t, w, []trial{
		{"revoked: next request", "every request of a revoked node is refused, on its kept connection and on a new one", revokedNext},
		{"revoked: held poll", "the held poll of a node that is revoked is answered at once, with a refusal", revokedPoll},
		{"revoked: renewal", "a revoked node gets no certificate, neither with its key nor with the join token", revokedRenewal},
		{"revoked: instance terminated", "TERMINATE ends the held polls of all its nodes", revokedByTerminate},
		{"revoked: survives a restart", "a controller that was killed after it acknowledged the revocation still refuses the node", revokedAfterKill},
		{"replaced: the certificate before", "after the first call with the new certificate the old one is refused, and its held poll ends", replaced},
	})
}

// everything is what a node may ask for, with what it may be answered.
func everything(a *attempt, m *machine, what string, statuses ...int) {
	a.Helper()
	status := asJSON(a, api.NodeStatus{Epoch: 1, ObservedDigest: "x", Conditions: []api.Condition{}})
	format := asJSON(a, api.FormatReport{Phase: api.FormatWanted, SizeBytes: 1 << 30, FilesystemUUID: api.FilesystemUUID(a.w.ours.volume)})
	a.refused(what+", configuration", m.config(), statuses...)
	a.refused(what+", status", m.call(http.MethodPut, "/v1/node/status", status), statuses...)
	a.refused(what+", format", m.call(http.MethodPost, "/v1/node/volumes/"+a.w.ours.volume+"/format", format), statuses...)
	a.refused(what+", file", m.call(http.MethodGet, "/v1/node/files/"+zeros, ""), statuses...)
}

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

func revokedNext(a *attempt) {
	m := a.w.enrolled(a.w.ours, a.w.ours.storage)
	a.allowed("before", m.config(), http.StatusOK)
	a.w.revoke(m.id)
	everything(a, m, "on the kept connection", http.StatusForbidden)
	fresh := *m
	fresh.caller = a.w.caller(shows(m.certificate))
	everything(a, &fresh, "on a new connection", http.StatusForbidden)
}

// held is a poll that the controller holds; its answer comes on the channel.
func (a *attempt) held(m *machine) <-chan answer {
	a.Helper()
	now := m.config()
	a.allowed("the configuration", now, http.StatusOK)
	answers := make(chan answer, 1)
	// A connection of its own: the machine may ask for other things meanwhile.
	line := a.w.caller(shows(m.certificate))
	go func() {
		answers <- line.call(http.MethodGet, "/v1/node/config", "", "If-None-Match: "+now.header.Get("ETag"))
	}()
	// No answer shows that it is held; the controller counts held polls, but has no
	// metrics here.
	select {
	case early := <-answers:
		a.Fatalf("the poll is not held: %d %s (%v)", early.status, early.body, early.err)
	case <-time.After(300 * time.Millisecond):
	}
	return answers
}

// answered waits for the answer of a poll.
func (a *attempt) answered(poll <-chan answer) answer {
	a.Helper()
	select {
	case got := <-poll:
		return got
	case <-time.After(60 * time.Second):
		a.Fatal("the poll is still held")
		return answer{err: errors.New("held")}
	}
}

func revokedPoll(a *attempt) {
	m := a.w.enrolled(a.w.ours, a.w.spare())
	poll := a.held(m)
	began := time.Now()
	a.w.revoke(m.id)
	a.refused("the held poll", a.answered(poll), http.StatusForbidden)
	a.c.Figure("answered after", "%d ms", time.Since(began).Milliseconds())
}

func revokedRenewal(a *attempt) {
	m := a.w.enrolled(a.w.ours, a.w.spare())
	a.w.revoke(m.id)
	a.refused("renewal", m.renew(), http.StatusForbidden)
	a.refused("the join token", m.enroll(a.w.ours.token, nil), http.StatusForbidden)
	a.refused("the join token, another key", a.w.boot(m.id).enroll(a.w.ours.token, nil), http.StatusForbidden)
	a.refused("and still", m.config(), http.StatusForbidden)
}

func revokedByTerminate(a *attempt) {
	s := a.w.newStack(0)
	nodes := []*machine{a.w.enrolled(s, s.storage), a.w.enrolled(s, s.worker)}
	var polls []<-chan answer
	for _, m := range nodes {
		polls = append(polls, a.held(m))
	}
	op := a.w.Operate(s.instance, api.OperationRequest{Operation: api.Terminate})
	for i, poll := range polls {
		a.refused("the poll of "+nodes[i].id, a.answered(poll), http.StatusForbidden)
	}
	if ended := a.w.Outcome(s.instance, op); ended.State != api.Completed {
		a.Errorf("%+v", ended)
	}
	if err := client.Done(a.w.API.DeleteInstance(a.Context(), s.instance, nil)); err != nil {
		a.Fatal(err)
	}
	for _, m := range nodes {
		everything(a, m, "of an instance that is deleted", http.StatusForbidden)
		a.refused("its join token", a.w.boot(m.id).enroll(s.token, nil), http.StatusUnauthorized)
	}
}

func revokedAfterKill(a *attempt) {
	m := a.w.enrolled(a.w.ours, a.w.spare())
	a.w.revoke(m.id)
	a.w.End(syscall.SIGKILL)
	a.w.Start()
	everything(a, m, "after the restart", http.StatusForbidden)
	a.refused("the join token after the restart", a.w.boot(m.id).enroll(a.w.ours.token, nil), http.StatusForbidden)
}

func replaced(a *attempt) {
	m := a.w.enrolled(a.w.ours, a.w.ours.worker)
	old := *m
	poll := a.held(&old)
	a.allowed("renewal", m.renew(), http.StatusCreated)
	a.allowed("the old one, until the new one was used", old.config(), http.StatusOK)
	a.allowed("the new one", m.config(), http.StatusOK)
	a.refused("the old one's held poll", a.answered(poll), http.StatusUnauthorized)
	everything(a, &old, "the old one", http.StatusUnauthorized)
	a.refused("its renewal", old.renew(), http.StatusUnauthorized)
	a.allowed("the new one goes on", m.config(), http.StatusOK)
}
