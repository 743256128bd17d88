// Package access keeps the API tokens of the northbound side: it makes, lists,
// revokes and verifies them. A token is id.secret; of the secret only a MAC is
// stored, so a stolen store without its key gives no access.
package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/shared/api"
)

// purpose separates these MACs from all others made with the store's key.
const purpose = "api token"

const (
	idBytes     = 8
	secretBytes = 32
)

// Service is the tokens in a store.
type Service struct {
	Store *store.Store
	// Hub wakes who waits for a token, or for the list of them.
	Hub *notify.Hub
	Now func() time.Time
	Log *slog.Logger
}

// Create makes a token. Its secret is in the result and nowhere else. conflict if there is one of
// its name that lives.
func (s *Service) Create(ctx context.Context, r api.TokenRequest) (api.NewToken, error) {
	id := hex.EncodeToString(random(idBytes))
	secret := id + "." + base64.RawURLEncoding.EncodeToString(random(secretBytes))
	now := s.Now().UTC()
	token := api.Token{ID: id, Name: r.Name, Scope: r.Scope, CreatedAt: now}
	if r.ExpiresInSeconds > 0 {
		expires := now.Add(time.Duration(r.ExpiresInSeconds) * time.Second)
		if r.ExpiresInSeconds > maxLifeSeconds {
			return api.NewToken{}, api.NewProblem(api.ProblemInvalid, fmt.Sprintf(
				"expiresInSeconds is %d; expected at most %d (100 years); without it the token does not expire", r.ExpiresInSeconds, maxLifeSeconds))
		}
		token.ExpiresAt = &expires
	}
	err := s.Store.Update(func(tx *store.Tx) error {
		tx.By(event.Caller(ctx))
		if err := nameIsFree(tx, r.Name, now); err != nil {
			return err
		}
		return tx.Tokens().Put(id, store.Token{Token: token, MAC: s.mac(secret), Epoch: s.Store.Epoch()})
	})
	if err != nil {
		return api.NewToken{}, fmt.Errorf("storing an API token: %w", err)
	}
	s.Hub.Changed(id, notify.Tokens)
	s.Log.Info("API token created", "event", api.EventTokenCreated, "token", id, "name", token.Name, "scope", token.Scope)
	return api.NewToken{Token: token, Secret: secret}, nil
}

// nameIsFree is a conflict if a token of the name was neither revoked nor has expired. One that
// waits for its confirmation after a restore lives. A store of before may hold several.
func nameIsFree(tx *store.Tx, name string, now time.Time) error {
	tokens, err := tx.Tokens().All()
	for _, t := range tokens {
		if t.Name == name && t.RevokedAt == nil && (t.ExpiresAt == nil || now.Before(*t.ExpiresAt)) {
			return api.NewProblem(api.ProblemConflict, fmt.Sprintf("there is an API token %s already: %s, scope %s, made %s; delete it, or choose another name",
				name, t.ID, t.Scope, t.CreatedAt.UTC().Format(time.RFC3339))).With(api.Action{Call: api.CallRevokeToken, ID: t.ID})
		}
	}
	return err
}

// maxLifeSeconds keeps the expiry within what a time.Duration can represent.
const maxLifeSeconds = 100 * 365 * 24 * 3600

// List is all tokens that were not revoked, expired ones too, by name and then age.
func (s *Service) List(context.Context) ([]api.Token, error) {
	var records []store.Token
	err := s.Store.View(func(tx *store.Tx) (err error) {
		records, err = tx.Tokens().All()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing API tokens: %w", err)
	}
	tokens := []api.Token{}
	for _, r := range records {
		if r.RevokedAt == nil {
			tokens = append(tokens, s.show(r))
		}
	}
	slices.SortStableFunc(tokens, func(a, b api.Token) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return a.CreatedAt.Compare(b.CreatedAt)
	})
	return tokens, nil
}

// Revoke ends a token: it opens nothing from now on. not-found if there is none of
// this id.
func (s *Service) Revoke(ctx context.Context, id string) error {
	var revoked store.Token
	now := s.Now().UTC()
	err := s.Store.Update(func(tx *store.Tx) (err error) {
		tx.By(event.Caller(ctx))
		if revoked, err = get(tx, id); err != nil {
			return err
		}
		revoked.MAC, revoked.RevokedAt = nil, &now
		return tx.Tokens().Put(id, revoked)
	})
	if err != nil {
		return fmt.Errorf("revoking an API token: %w", err)
	}
	s.Hub.Changed(id, notify.Tokens)
	s.Log.Info("API token revoked", "event", api.EventTokenRevoked, "token", id, "name", revoked.Name)
	return nil
}

// Confirm is an operator's word, after a restore, that the token is good as before.
// Again changes nothing. not-found if there is none of this id.
func (s *Service) Confirm(ctx context.Context, id string) (api.Token, error) {
	var record store.Token
	err := s.Store.Update(func(tx *store.Tx) (err error) {
		tx.By(event.Caller(ctx))
		if record, err = get(tx, id); err != nil {
			return err
		}
		record.Epoch = s.Store.Epoch()
		return tx.Tokens().Put(id, record)
	})
	if err != nil {
		return api.Token{}, fmt.Errorf("confirming an API token: %w", err)
	}
	s.Hub.Changed(id, notify.Tokens)
	s.Log.Info("API token confirmed", "event", api.EventTokenConfirmed, "token", id, "name", record.Name)
	return s.show(record), nil
}

// Sweep notes which tokens have expired since the last one, so that it is an event; nothing else
// changes when a token expires. Without any it writes nothing.
func (s *Service) Sweep() error {
	due := 0
	err := s.Store.View(func(tx *store.Tx) error {
		expired, err := s.expired(tx)
		due = len(expired)
		return err
	})
	if err == nil && due > 0 {
		err = s.Store.Update(func(tx *store.Tx) error {
			expired, err := s.expired(tx)
			for _, t := range expired {
				t.Expired = true
				err = errors.Join(err, tx.Tokens().Put(t.ID, t))
			}
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("noting which API tokens have expired: %w", err)
	}
	return nil
}

// expired are the tokens that have expired, which is not noted yet.
func (s *Service) expired(tx *store.Tx) ([]store.Token, error) {
	now := s.Now()
	tokens, err := tx.Tokens().All()
	return slices.DeleteFunc(tokens, func(t store.Token) bool {
		return t.Expired || t.RevokedAt != nil || t.ExpiresAt == nil || now.Before(*t.ExpiresAt)
	}), err
}

// Run sweeps every minute until ctx ends.
func (s *Service) Run(ctx context.Context) {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		if err := s.Sweep(); err != nil && ctx.Err() == nil {
			s.Log.Error("it cannot be noted which API tokens have expired", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (s *Service) show(record store.Token) api.Token {
	record.Unconfirmed = record.Epoch != s.Store.Epoch()
	return record.Token
}

// get is the token of the id: not-found for one that was revoked, too.
func get(tx *store.Tx, id string) (store.Token, error) {
	record, found, err := tx.Tokens().Get(id)
	if err == nil && (!found || record.RevokedAt != nil) {
		err = api.NewProblem(api.ProblemNotFound, fmt.Sprintf("there is no API token with the id %.40q", id))
	}
	return record, err
}

// Verify is the token that a caller has given. One that is not genuine is unauthorized, for
// whatever reason, and takes as long. The owner of a genuine one is told that it has expired,
// or that a restore made it invalid.
func (s *Service) Verify(_ context.Context, bearer string) (api.Token, error) {
	id, _, _ := strings.Cut(bearer, ".")
	record, err := s.read(id)
	if err != nil {
		return api.Token{}, err
	}
	// An unknown id and a revoked one have an empty MAC, which equals none.
	if !hmac.Equal(record.MAC, s.mac(bearer)) {
		return api.Token{}, errUnknown
	}
	return s.inForce(record)
}

// Find is the token of an id that its owner has verified before: it may have been revoked, or have
// expired, since. The problems are those of Verify.
func (s *Service) Find(_ context.Context, id string) (api.Token, error) {
	record, err := s.read(id)
	if err != nil {
		return api.Token{}, err
	}
	if record.MAC == nil {
		return api.Token{}, errUnknown
	}
	return s.inForce(record)
}

var errUnknown = api.NewProblem(api.ProblemUnauthorized, "the API token is unknown or revoked")

// read is the record of an id, the zero record if there is none.
func (s *Service) read(id string) (record store.Token, err error) {
	err = s.Store.View(func(tx *store.Tx) (err error) {
		if id != "" {
			record, _, err = tx.Tokens().Get(id)
		}
		return err
	})
	if err != nil {
		return record, fmt.Errorf("reading API tokens: %w", err)
	}
	return record, nil
}

// inForce is the token, unless it has expired or a restore made it invalid.
func (s *Service) inForce(record store.Token) (api.Token, error) {
	if record.ExpiresAt != nil && !s.Now().Before(*record.ExpiresAt) {
		return api.Token{}, api.NewProblem(api.ProblemUnauthorized, fmt.Sprintf(
			"the API token %s expired on %s", record.Name, record.ExpiresAt.UTC().Format(time.RFC3339)))
	}
	if record.Epoch != s.Store.Epoch() {
		return api.Token{}, api.NewProblem(api.ProblemUnauthorized, fmt.Sprintf(
			"the controller's state was %s, and the API token %s (%s) may have been revoked since: root on the controller's machine makes it good again with POST /v1/tokens/%s/confirm on the unix socket",
			s.Store.Origin(), record.ID, record.Name, record.ID)).With(api.Action{Call: api.CallConfirmToken, ID: record.ID})
	}
	return record.Token, nil
}

func (s *Service) mac(secret string) []byte { return s.Store.MAC(purpose, []byte(secret)) }

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return b
}
