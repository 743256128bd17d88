package backup_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/backup"
	"github.com/nodehitch/nodehitch/controller/backup/archive"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// What happened after the backup stands in the store that is replaced.
func TestWhatTheReplacedStoreKnowsBetter(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	w.expect(servers...)
	left, formatting, rebuilt := servers[0], servers[1], servers[2]
	leaver, err := w.enroll(left, testca.NewKey())
	w.must(err)
	_, err = w.enroll(formatting, testca.NewKey())
	w.must(err)
	permit, err := w.format(formatting, api.FormatWanted, "")
	w.must(err)
	w.must(w.Enrollment.Reenroll(ctx, rebuilt))
	token, err := w.Tokens.Create(ctx, api.TokenRequest{Name: "t", Scope: api.ScopeOperator})
	w.must(err)
	file := w.take()
	w.must(w.Store.Update(func(tx *store.Tx) error { return w.Enrollment.RevokeTx(tx, left, "an operation ended without it") }))
	for _, phase := range []api.FormatPhase{api.FormatStarted, api.FormatFormatted} {
		_, err = w.format(formatting, phase, permit)
		w.must(err)
	}
	w.must(w.Tokens.Revoke(ctx, token.Token.ID))
	done := w.restore(file, false)
	defer func() { w.must(w.Store.Close()) }()

	t.Run("an identity that ended stays ended", func(t *testing.T) {
		w.confirm(left)
		if w.calls(leaver) == nil {
			t.Error("its certificate is let in")
		}
	})
	t.Run("a permit that was spent stays spent", func(t *testing.T) {
		if v, err := w.Permits.Get(ctx, formatting); err != nil || v.PermitState != api.PermitFormatted {
			t.Errorf("the permit is %s (%v); expected %s", v.PermitState, err, api.PermitFormatted)
		}
	})
	t.Run("a token that was revoked is gone", func(t *testing.T) {
		if list, err := w.Tokens.List(ctx); err != nil || len(list) != 0 {
			t.Errorf("%v (%v); expected none", list, err)
		}
	})
	w.must(w.Store.View(func(tx *store.Tx) error {
		node, _, nodeErr := tx.Nodes().Get(rebuilt)
		i, _, instanceErr := tx.Instances().Get(instance)
		t.Run("the leave to enroll again is withdrawn", func(t *testing.T) {
			if node.MayReenroll {
				t.Error("it may enroll again")
			}
		})
		t.Run("numbers of operations go on at the epoch", func(t *testing.T) {
			if i.LastSequence < done.Epoch {
				t.Errorf("the last number is %d and the epoch %d", i.LastSequence, done.Epoch)
			}
		})
		return errors.Join(nodeErr, instanceErr)
	}))
	if want := (backup.Carried{Identities: 1, Permits: 1, Tokens: 1}); done.Carried != want {
		t.Errorf("carried %+v; expected %+v", done.Carried, want)
	}
}

// Its sums fit, because a forger can make them anew; the MAC needs the seal key.
func TestAForgedBackupIsRefused(t *testing.T) {
	w := newWorld(t)
	w.expect(servers...)
	file := w.take()
	var content bytes.Buffer
	in, err := os.Open(file)
	w.must(err)
	defer in.Close()
	var database []byte
	manifest, _, err := archive.Read(in, archive.Taker{
		Manifest: func(archive.Manifest) error { return nil },
		Store: func(_ int64, c io.Reader) (err error) {
			database, err = io.ReadAll(c)
			return err
		},
	})
	w.must(err)
	out, err := archive.NewWriter(&content, manifest)
	w.must(err)
	w.must(out.Store(manifest.StoreBytes, bytes.NewReader(database)))
	w.must(out.Close(func([]byte) []byte { return make([]byte, 32) }))
	w.must(os.WriteFile(file, content.Bytes(), 0o600))
	w.must(w.Store.Close())
	path := w.StorePath()
	before, err := os.ReadFile(path)
	w.must(err)
	r := backup.Restore{File: file, DataDirectory: w.Config.DataDirectory, Key: store.KeySource{File: w.Config.SealKeyFile}, Replace: true, Now: w.Clock.Now}
	if _, err := r.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "not made with the controller's key") {
		t.Errorf("%v; expected it to be refused", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the store was changed (%v)", err)
	}
}
