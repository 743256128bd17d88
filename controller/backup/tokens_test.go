package backup_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/controller/backup"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The second restore replaces a store that was itself restored.
func TestASecondRestoreDoesNotBringARevokedTokenBack(t *testing.T) {
	w := newWorld(t)
	made, err := w.Tokens.Create(context.Background(), api.TokenRequest{Name: "t", Scope: api.ScopeOperator})
	w.must(err)
	file := w.take()
	w.must(w.Tokens.Revoke(context.Background(), made.Token.ID))
	for n := range 3 {
		done := w.restore(file, false)
		if want := (backup.Carried{Tokens: 1}); done.Carried != want || done.Tokens != 0 {
			t.Errorf("restore %d carried %+v and left %d tokens; expected %+v and none", n+1, done.Carried, done.Tokens, want)
		}
		if list, err := w.Tokens.List(context.Background()); err != nil || len(list) != 0 {
			t.Errorf("after restore %d: %v (%v); expected none", n+1, list, err)
		}
	}
}

// kept is a backup and the tokens that were good when it was taken.
type kept struct {
	file   string
	tokens map[string]bool
}

// However backups follow each other, a restore that replaces a store brings back
// the tokens of the backup but for those that were ever revoked.
func TestAChainOfRestoresBringsBackAllTokensButTheRevoked(t *testing.T) {
	ctx := context.Background()
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		secrets, good, revoked := map[string]string{}, map[string]bool{}, map[string]bool{}
		var backups []kept
		r.Repeat(map[string]func(*rapid.T){
			"create": func(*rapid.T) {
				made, err := w.Tokens.Create(ctx, api.TokenRequest{Name: "t", Scope: api.ScopeOperator})
				w.must(err)
				secrets[made.Token.ID], good[made.Token.ID] = made.Secret, true
			},
			"revoke": func(r *rapid.T) {
				if len(good) == 0 {
					r.Skip("no token")
				}
				id := rapid.SampledFrom(slices.Sorted(maps.Keys(good))).Draw(r, "token")
				w.must(w.Tokens.Revoke(ctx, id))
				delete(good, id)
				revoked[id] = true
			},
			"back up": func(*rapid.T) { backups = append(backups, kept{w.take(), maps.Clone(good)}) },
			"restore": func(r *rapid.T) {
				if len(backups) == 0 {
					r.Skip("no backup")
				}
				w.Clock.Advance(time.Minute)
				b := rapid.SampledFrom(backups).Draw(r, "backup")
				w.restore(b.file, false)
				good = maps.Clone(b.tokens)
				maps.DeleteFunc(good, func(id string, _ bool) bool { return revoked[id] })
				for id := range good {
					_, err := w.Tokens.Confirm(ctx, id)
					w.must(err)
				}
			},
			"": func(r *rapid.T) {
				list, err := w.Tokens.List(ctx)
				if err != nil || len(list) != len(good) {
					r.Errorf("%d tokens (%v); expected %d", len(list), err, len(good))
				}
				for id, secret := range secrets {
					if _, err := w.Tokens.Verify(ctx, secret); (err == nil) != good[id] {
						r.Errorf("the token %s: %v; revoked %t, expected good %t", id, err, revoked[id], good[id])
					}
				}
			},
		})
		if err := w.Store.Close(); err != nil {
			r.Fatal(err)
		}
	})
}
