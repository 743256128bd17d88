package backup_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/controller/backup"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The second restore replaces a store that was itself restored, maybe from a backup
// that does not know the token.
func TestASecondRestoreDoesNotBringARevokedTokenBack(t *testing.T) {
	w := newWorld(t)
	older := w.take()
	made, err := w.Tokens.Create(context.Background(), api.TokenRequest{Name: "t", Scope: api.ScopeOperator})
	w.must(err)
	file := w.take()
	w.must(w.Tokens.Revoke(context.Background(), made.Token.ID))
	for n, b := range []struct {
		file    string
		carried int
	}{{file, 1}, {file, 1}, {older, 0}, {file, 1}} {
		done := w.restore(b.file, false)
		if want := (backup.Carried{Tokens: b.carried}); done.Carried != want || done.Tokens != 0 {
			t.Errorf("restore %d carried %+v and left %d tokens; expected %+v and none", n+1, done.Carried, done.Tokens, want)
		}
		if list, err := w.Tokens.List(context.Background()); err != nil || len(list) != 0 {
			t.Errorf("after restore %d: %v (%v); expected none", n+1, list, err)
		}
	}
}

// fleet is the tokens of a history.
type fleet struct {
	*world
	secrets       map[string]string
	good, revoked map[string]bool
	backups       []kept
}

// kept is a backup and the tokens that were good when it was taken.
type kept struct {
	file   string
	tokens map[string]bool
}

// However backups follow each other, a restore that replaces a store brings back
// the tokens of the backup but for those that were ever revoked.
func TestAChainOfRestoresBringsBackAllTokensButTheRevoked(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := &fleet{world: newWorld(t), secrets: map[string]string{}, good: map[string]bool{}, revoked: map[string]bool{}}
		for range rapid.IntRange(2, 10).Draw(r, "events") {
			f.event(r)
		}
		f.onlyTheGoodAreLetIn(r)
		if err := f.Store.Close(); err != nil {
			r.Fatal(err)
		}
	})
}

// event is one thing that happens; it changes nothing if it cannot happen.
func (f *fleet) event(r *rapid.T) {
	ctx := context.Background()
	switch event := rapid.SampledFrom([]string{"create", "revoke", "back up", "restore"}).Draw(r, "event"); {
	case event == "create":
		made, err := f.Tokens.Create(ctx, api.TokenRequest{Name: fmt.Sprint("t", len(f.secrets)), Scope: api.ScopeOperator})
		f.must(err)
		f.secrets[made.Token.ID], f.good[made.Token.ID] = made.Secret, true
	case event == "revoke" && len(f.good) > 0:
		id := rapid.SampledFrom(slices.Sorted(maps.Keys(f.good))).Draw(r, "token")
		f.must(f.Tokens.Revoke(ctx, id))
		delete(f.good, id)
		f.revoked[id] = true
	case event == "back up":
		f.backups = append(f.backups, kept{f.take(), maps.Clone(f.good)})
	case event == "restore" && len(f.backups) > 0:
		b := rapid.SampledFrom(f.backups).Draw(r, "backup")
		f.restore(b.file, false)
		f.good = maps.Clone(b.tokens)
		maps.DeleteFunc(f.good, func(id string, _ bool) bool { return f.revoked[id] })
		for id := range f.good {
			_, err := f.Tokens.Confirm(ctx, id)
			f.must(err)
		}
		f.onlyTheGoodAreLetIn(r)
	}
}

func (f *fleet) onlyTheGoodAreLetIn(r *rapid.T) {
	list, err := f.Tokens.List(context.Background())
	if err != nil || len(list) != len(f.good) {
		r.Errorf("%d tokens (%v); expected %d", len(list), err, len(f.good))
	}
	for id, secret := range f.secrets {
		if _, err := f.Tokens.Verify(context.Background(), secret); (err == nil) != f.good[id] {
			r.Errorf("the token %s: %v; expected it to be good: %t", id, err, f.good[id])
		}
	}
}
