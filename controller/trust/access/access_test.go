package access_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/storetest"
	"github.com/nodehitch/nodehitch/controller/trust/access"
	"github.com/nodehitch/nodehitch/shared/api"
)

type room struct {
	*access.Service
	log  bytes.Buffer
	path string
	now  time.Time
}

func open(t *testing.T) *room {
	t.Helper()
	dir := t.TempDir()
	r := &room{path: filepath.Join(dir, "store.db"), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	s, err := storetest.Open(t, store.Options{Path: r.path, Key: store.KeySource{File: filepath.Join(dir, "key"), Create: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	r.Service = &access.Service{Store: s, Hub: new(notify.Hub), Now: func() time.Time { return r.now }, Log: slog.New(slog.NewTextHandler(&r.log, nil))}
	return r
}

func (r *room) create(t *testing.T, request api.TokenRequest) api.NewToken {
	t.Helper()
	token, err := r.Create(context.Background(), request)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (r *room) restored(t *testing.T) {
	t.Helper()
	if _, err := r.Store.BeginEpoch(store.NewEpoch{From: store.Origin{TakenAt: r.now, Epoch: r.Store.Epoch(), RestoredAt: r.now}}); err != nil {
		t.Fatal(err)
	}
}

func problemType(err error) string {
	var p *api.Problem
	if errors.As(err, &p) {
		return p.Type
	}
	return ""
}

func TestATokenLetsInWhoHasItUntilItIsRevoked(t *testing.T) {
	r := open(t)
	ctx := context.Background()
	made := r.create(t, api.TokenRequest{Name: "ci", Scope: api.ScopeViewer})

	got, err := r.Verify(ctx, made.Secret)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(made.Token, got); diff != "" {
		t.Error(diff)
	}
	if err := r.Revoke(ctx, made.Token.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(ctx, made.Secret); problemType(err) != api.ProblemUnauthorized {
		t.Errorf("after the revocation: %v", err)
	}
	if err := r.Revoke(ctx, made.Token.ID); problemType(err) != api.ProblemNotFound {
		t.Errorf("revoked again: %v", err)
	}
	if _, err := r.Confirm(ctx, made.Token.ID); problemType(err) != api.ProblemNotFound {
		t.Errorf("confirmed after the revocation: %v", err)
	}
	if list, err := r.List(ctx); err != nil || len(list) != 0 {
		t.Errorf("after the revocation the list is %v (%v); expected none", list, err)
	}
}

func TestOnlyTheExactSecretLetsIn(t *testing.T) {
	r := open(t)
	made := r.create(t, api.TokenRequest{Name: "a", Scope: api.ScopeOperator})
	other := r.create(t, api.TokenRequest{Name: "b", Scope: api.ScopeOperator})
	id, secret, _ := strings.Cut(made.Secret, ".")
	otherID, _, _ := strings.Cut(other.Secret, ".")
	for name, bearer := range map[string]string{
		"nothing": "", "a dot": ".", "the id": id, "the id and a dot": id + ".", "the secret": secret,
		"with another id": otherID + "." + secret, "shortened": made.Secret[:len(made.Secret)-1],
		"lengthened": made.Secret + "A", "unknown": "0000000000000000." + secret,
	} {
		if _, err := r.Verify(context.Background(), bearer); problemType(err) != api.ProblemUnauthorized {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Who is told apart by a name in a list and in events has one token at a time. A store of before
// may hold several of one name: each of them is used, confirmed and revoked by its id.
func TestTwoTokensOfOneNameDoNotLiveAtATime(t *testing.T) {
	r := open(t)
	ctx := context.Background()
	first := r.create(t, api.TokenRequest{Name: "a", Scope: api.ScopeOperator, ExpiresInSeconds: 60})
	refused := func(when string) {
		t.Helper()
		_, err := r.Create(ctx, api.TokenRequest{Name: "a", Scope: api.ScopeViewer})
		var conflict *api.Problem
		if !errors.As(err, &conflict) || conflict.Status != 409 || !strings.Contains(conflict.Detail, first.Token.ID) || conflict.Commands() != "`hitchctl delete token "+first.Token.ID+"`" {
			t.Errorf("%s: %v", when, err)
		}
		if list, err := r.List(ctx); err != nil || len(list) != 1 {
			t.Errorf("%s there are %v (%v)", when, list, err)
		}
	}
	refused("while it lives")
	r.restored(t)
	refused("while it waits for its confirmation")
	r.now = r.now.Add(time.Minute)
	second := r.create(t, api.TokenRequest{Name: "a", Scope: api.ScopeOperator}) // the first has expired
	if err := r.Revoke(ctx, second.Token.ID); err != nil {
		t.Fatal(err)
	}
	third := r.create(t, api.TokenRequest{Name: "a", Scope: api.ScopeOperator})

	twin := store.Token{Token: third.Token, Epoch: r.Store.Epoch()}
	twin.ID = "0123456789abcdef"
	if err := r.Store.Update(func(tx *store.Tx) error { return tx.Tokens().Put(twin.ID, twin) }); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(ctx, third.Secret); err != nil {
		t.Errorf("beside another of its name: %v", err)
	}
	if _, err := r.Confirm(ctx, twin.ID); err != nil {
		t.Errorf("confirmed beside another of its name: %v", err)
	}
	if err := r.Revoke(ctx, third.Token.ID); err != nil {
		t.Errorf("revoked beside another of its name: %v", err)
	}
	if list, err := r.List(ctx); err != nil || len(list) != 2 || list[0].ID != first.Token.ID || list[1].ID != twin.ID {
		t.Errorf("%v (%v); expected the expired one and %s", list, err, twin.ID)
	}
}

func TestATokenExpires(t *testing.T) {
	r := open(t)
	made := r.create(t, api.TokenRequest{Name: "a", Scope: api.ScopeOperator, ExpiresInSeconds: 60})
	r.now = r.now.Add(59 * time.Second)
	if _, err := r.Verify(context.Background(), made.Secret); err != nil {
		t.Errorf("a second before: %v", err)
	}
	r.now = r.now.Add(time.Second)
	_, err := r.Verify(context.Background(), made.Secret)
	if when := "token a expired on " + r.now.UTC().Format(time.RFC3339); problemType(err) != api.ProblemUnauthorized || !strings.Contains(err.Error(), when) {
		t.Errorf("when its time is over: %v", err)
	}
	if _, err := r.Verify(context.Background(), made.Secret+"A"); problemType(err) != api.ProblemUnauthorized || strings.Contains(err.Error(), "expired") {
		t.Errorf("without the secret: %v", err)
	}
	if _, err := r.Create(context.Background(), api.TokenRequest{Name: "a", ExpiresInSeconds: 1 << 60}); problemType(err) != api.ProblemInvalid {
		t.Errorf("a life longer than the clock: %v", err)
	}
}

// A backup does not tell which tokens were revoked after it.
func TestATokenOfBeforeARestoreWaitsForAnOperator(t *testing.T) {
	r := open(t)
	ctx := context.Background()
	made := r.create(t, api.TokenRequest{Name: "a", Scope: api.ScopeOperator})
	r.restored(t)
	_, err := r.Verify(ctx, made.Secret)
	var unconfirmed *api.Problem
	if !errors.As(err, &unconfirmed) || unconfirmed.Type != api.ProblemUnauthorized || unconfirmed.Commands() != "`hitchctl confirm token "+made.Token.ID+"`" {
		t.Errorf("before its confirmation: %v", err)
	}
	if list, err := r.List(ctx); err != nil || len(list) != 1 || !list[0].Unconfirmed {
		t.Errorf("%+v (%v); expected one token that is unconfirmed", list, err)
	}
	if confirmed, err := r.Confirm(ctx, made.Token.ID); err != nil || confirmed.Unconfirmed {
		t.Errorf("confirmed: %+v, %v", confirmed, err)
	}
	if _, err := r.Verify(ctx, made.Secret); err != nil {
		t.Errorf("after its confirmation: %v", err)
	}
}

func TestTheSecretIsNeitherInTheStoreNorInTheLogNorInTheList(t *testing.T) {
	r := open(t)
	made := r.create(t, api.TokenRequest{Name: "a", Scope: api.ScopeOperator})
	if _, err := r.Verify(context.Background(), made.Secret); err != nil {
		t.Fatal(err)
	}
	_, secret, _ := strings.Cut(made.Secret, ".")
	if bytes.Contains(storetest.Content(t, r.path), []byte(secret)) {
		t.Error("the store contains the secret")
	}
	if strings.Contains(r.log.String(), secret) || !strings.Contains(r.log.String(), made.Token.ID) {
		t.Errorf("the log: %s", r.log.String())
	}
	list, err := r.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]api.Token{made.Token}, list); diff != "" {
		t.Error(diff)
	}
}

// The end of a token's life changes nothing but that it was noticed, once.
func TestThatATokenHasExpiredIsNotedOnce(t *testing.T) {
	r := open(t)
	made := r.create(t, api.TokenRequest{Name: "a", Scope: api.ScopeOperator, ExpiresInSeconds: 60})
	r.create(t, api.TokenRequest{Name: "b", Scope: api.ScopeOperator})
	noted := func() (tokens []string, file string) {
		t.Helper()
		if err := r.Sweep(); err != nil {
			t.Fatal(err)
		}
		if err := r.Store.View(func(tx *store.Tx) error {
			all, err := tx.Tokens().All()
			for _, record := range all {
				if record.Expired {
					tokens = append(tokens, record.ID)
				}
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return tokens, storetest.Commits(t, r.path)
	}
	r.now = r.now.Add(59 * time.Second)
	if tokens, _ := noted(); len(tokens) > 0 {
		t.Errorf("a second before: %v", tokens)
	}
	r.now = r.now.Add(time.Second)
	tokens, before := noted()
	if len(tokens) != 1 || tokens[0] != made.Token.ID {
		t.Errorf("when its time is over: %v", tokens)
	}
	if _, after := noted(); after != before {
		t.Error("a sweep without news writes")
	}
}
