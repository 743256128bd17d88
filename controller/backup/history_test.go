package backup_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

var servers = []string{
	"6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e01", "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e02", "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e03",
}

// history is what happened, as a bystander remembers it.
type history struct {
	*world
	// issued is every certificate ever, newest the last one of a server that it may
	// still use.
	issued  []*certificate
	newest  map[string]*certificate
	banned  map[string]bool // by hand, and not allowed to enroll again
	permits []granted
	tokens  map[string]string // id to secret
	revoked map[string]bool   // tokens
}

type granted struct{ server, id string }

// Whatever happens before and after a backup, once it is restored no node is accepted
// and nothing is permitted before an operator confirms; and after that, no one
// who was revoked by hand since, no certificate but the newest of each server, and no
// permit of before.
func TestNothingThatWasRevokedIsBroughtBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		w.expect(servers...)
		h := &history{world: w, newest: map[string]*certificate{}, banned: map[string]bool{}, tokens: map[string]string{}, revoked: map[string]bool{}}
		for range rapid.IntRange(0, 8).Draw(r, "events before the backup") {
			h.event(r)
		}
		file := h.take()
		for range rapid.IntRange(0, 12).Draw(r, "events after the backup") {
			h.event(r)
		}
		lost := rapid.Bool().Draw(r, "the state is lost")
		h.restore(file, lost)
		h.nothingIsTrusted(r)
		if lost {
			for id := range h.banned {
				h.must(h.Enrollment.Revoke(context.Background(), id, "again"))
			}
		}
		h.confirm(servers...)
		h.onlyTheNewestIsTrusted(r)
		if err := h.Store.Close(); err != nil {
			r.Fatal(err)
		}
	})
}

// event is one thing that happens.
func (h *history) event(r *rapid.T) {
	h.Clock.Advance(time.Minute)
	server := rapid.SampledFrom(servers).Draw(r, "server")
	switch rapid.SampledFrom([]string{"enroll", "renew", "revoke", "reenroll", "format", "token", "revoke token"}).Draw(r, "event") {
	case "enroll":
		if c, err := h.enroll(server, testca.NewKey()); err == nil {
			h.issue(c)
		}
	case "renew":
		if c := h.newest[server]; c != nil {
			next, err := h.renew(c)
			h.must(err)
			h.issue(next)
			h.must(h.calls(next))
		}
	case "revoke":
		h.must(h.Enrollment.Revoke(context.Background(), server, "test"))
		h.banned[server] = true
		delete(h.newest, server)
	case "reenroll":
		h.must(h.Enrollment.Reenroll(context.Background(), server))
		delete(h.newest, server)
		delete(h.banned, server)
	case "format":
		h.formatSome(r, server)
	case "token":
		made, err := h.Tokens.Create(context.Background(), api.TokenRequest{Name: fmt.Sprint("t", len(h.tokens)), Scope: api.ScopeOperator})
		h.must(err)
		h.tokens[made.Token.ID] = made.Secret
	case "revoke token":
		for id := range h.tokens {
			if !h.revoked[id] {
				h.must(h.Tokens.Revoke(context.Background(), id))
				h.revoked[id] = true
				return
			}
		}
	}
}

func (h *history) issue(c *certificate) {
	h.issued = append(h.issued, c)
	h.newest[c.server] = c
	delete(h.banned, c.server)
}

// formatSome goes some way of the format of the server's volume.
func (h *history) formatSome(r *rapid.T, server string) {
	if h.newest[server] == nil {
		return
	}
	id, err := h.format(server, api.FormatWanted, "")
	if err != nil {
		return
	}
	h.permits = append(h.permits, granted{server, id})
	for _, phase := range []api.FormatPhase{api.FormatStarted, api.FormatFormatted} {
		if rapid.Bool().Draw(r, "no further than before "+string(phase)) {
			return
		}
		if _, err := h.format(server, phase, id); err != nil {
			r.Fatalf("%s: %v", phase, err)
		}
	}
}

func (h *history) nothingIsTrusted(r *rapid.T) {
	// The nodes call before the operator confirms, in whatever order.
	for _, c := range rapid.Permutation(h.issued).Draw(r, "order of calls") {
		if h.calls(c) == nil {
			r.Errorf("a certificate of %s is let in before the confirmation", c.server)
		}
		if _, err := h.enroll(c.server, c.key); err == nil {
			r.Errorf("%s enrolls with its key before the confirmation", c.server)
		}
	}
	for _, server := range servers {
		if _, err := h.enroll(server, testca.NewKey()); err == nil {
			r.Errorf("%s enrolls with the join token before the confirmation", server)
		}
	}
	for id, secret := range h.tokens {
		if _, err := h.Tokens.Verify(context.Background(), secret); err == nil {
			r.Errorf("the API token %s opens something", id)
		}
	}
	h.nothingIsPermitted(r)
}

func (h *history) nothingIsPermitted(r *rapid.T) {
	for _, server := range servers {
		if _, err := h.format(server, api.FormatWanted, ""); err == nil {
			r.Errorf("the volume of %s gets a permit", server)
		}
	}
	for _, p := range h.permits {
		if _, err := h.format(p.server, api.FormatStarted, p.id); err == nil {
			r.Errorf("the permit %s of %s is good for a start", p.id, p.server)
		}
	}
}

func (h *history) onlyTheNewestIsTrusted(r *rapid.T) {
	for _, c := range h.issued {
		err := h.calls(c)
		switch newest := h.newest[c.server]; {
		case err == nil && h.banned[c.server]:
			r.Errorf("%s was revoked and is let in", c.server)
		case err == nil && newest != nil && newest != c:
			r.Errorf("a certificate of %s is let in that is not its newest", c.server)
		}
	}
	for server := range h.banned {
		if _, err := h.enroll(server, testca.NewKey()); err == nil {
			r.Errorf("%s was revoked and enrolls", server)
		}
	}
	h.nothingIsPermitted(r)
}
