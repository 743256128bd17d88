package restore

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

func (w *controller) post(r api.OperationRequest) (*api.Operation, error) {
	r.Partial = true
	return client.Read[api.Operation](w.API.PostOperation(w.t.Context(), instance, nil, r))
}

// instantiated is the instance with its storage server Ready, by this key.
func (w *controller) instantiated(m *machine, key string) int64 {
	w.t.Helper()
	op, err := w.post(api.OperationRequest{Operation: api.Instantiate, Topology: loopback.StorageTopology(storage, volume, size), IdempotencyKey: key})
	w.must(err)
	w.must(m.converged())
	if got := w.Outcome(instance, op.Sequence); got.State != api.Completed {
		w.t.Fatalf("INSTANTIATE is %+v", got)
	}
	return op.Sequence
}

func TestASuccessBeforeTheRestoreDoesNotCount(t *testing.T) {
	both(t, "old success", "an operation that succeeded before the restore is attempted again for its key, and completes with new statuses of the nodes", func(w *controller, lost bool) {
		m := w.enrolled(storage)
		old := w.instantiated(m, "instantiate-1")
		before, err := m.config()
		w.must(err)
		w.restored(w.backup(), lost)
		request := api.OperationRequest{Operation: api.Instantiate, IdempotencyKey: "instantiate-1"}
		_, err = w.post(request)
		w.refused("an operation before the confirmation", err, api.ProblemRestoreUnconfirmed)
		w.confirm()
		if w.Node(storage).Ready {
			w.t.Error("the node is Ready with its status from before the restore")
		}
		op, err := w.post(request)
		w.must(err)
		if op.Sequence == old || op.State != api.Processing || len(op.Targets) != 1 {
			w.t.Errorf("the key brought %+v, want a new attempt that waits for the storage server", op)
		}
		w.must(m.report(loopback.Converged(*before)))
		if got, err := client.Read[api.Operation](w.API.GetOperation(t.Context(), instance, op.Sequence, nil)); err != nil || got.State != api.Processing {
			w.t.Errorf("with a status from before the restore the operation is %+v, %v", got, err)
		}
		w.must(m.converged())
		if got := w.Outcome(instance, op.Sequence); got.State != api.Completed {
			w.t.Errorf("the new attempt is %+v", got)
		}
		if again, err := w.post(request); err != nil || again.ID != op.ID {
			w.t.Errorf("the key once more brought %+v, %v, want the new success", again, err)
		}
	})
}

func TestAProcessingOperationNeedsNewStatuses(t *testing.T) {
	both(t, "operation in progress", "an operation that was PROCESSING in the backup continues, and no status from before completes it", func(w *controller, lost bool) {
		m := w.enrolled(storage)
		op, err := w.post(api.OperationRequest{Operation: api.Instantiate, Topology: loopback.StorageTopology(storage, volume, size), IdempotencyKey: "k"})
		w.must(err)
		old, err := m.config()
		w.must(err)
		file := w.backup()
		w.must(m.converged())
		w.Outcome(instance, op.Sequence)
		w.restored(file, lost)
		w.confirm()
		w.must(m.report(loopback.Converged(*old)))
		if joined, err := w.post(api.OperationRequest{Operation: api.Instantiate, IdempotencyKey: "k"}); err != nil || joined.ID != op.ID || joined.State != api.Processing {
			w.t.Errorf("after a status from before the restore the operation is %+v, %v, want PROCESSING", joined, err)
		}
		w.must(m.converged())
		if got := w.Outcome(instance, op.Sequence); got.State != api.Completed {
			w.t.Errorf("the operation is %+v", got)
		}
	})
}

func TestNumbersOfOperationsAreNotUsedAgain(t *testing.T) {
	both(t, "operation numbers", "the number of an operation from after the backup is not used again", func(w *controller, lost bool) {
		m := w.enrolled(storage)
		file := w.backup()
		number := w.instantiated(m, "")
		w.restored(file, lost)
		w.confirm()
		_, err := client.Read[api.Operation](w.API.GetOperation(t.Context(), instance, number, nil))
		if client.Status(err) != http.StatusNotFound {
			w.t.Errorf("the operation that the backup does not know is answered with %v", err)
		}
		if next := w.instantiated(m, ""); next == number {
			w.t.Errorf("the next operation is %d again", number)
		}
	})
}

func TestTokensWaitForConfirmation(t *testing.T) {
	both(t, "API tokens", "no API token of the backup is accepted before it is confirmed; one that was revoked since is never accepted", func(w *controller, lost bool) {
		secrets := map[string]string{}
		for _, name := range []string{"alice", "mallory"} {
			made, err := client.Read[api.NewToken](w.API.CreateToken(w.t.Context(), api.TokenRequest{Name: name, Scope: api.ScopeOperator}))
			w.must(err)
			secrets[name] = made.Secret
		}
		trust := w.Trust()
		as := func(name string) error {
			c, err := client.New(client.Options{BaseURL: w.URL, RootPEM: []byte(trust.RootCertificate), Pin: trust.Pin, Token: secrets[name]})
			w.must(err)
			defer c.CloseIdle()
			_, err = client.Read[api.InstanceList](c.ListInstances(w.t.Context(), nil))
			return err
		}
		file := w.backup()
		w.Must("delete", "token", "mallory")
		w.restored(file, lost)
		for name := range secrets {
			w.refused("the token of "+name, as(name), api.ProblemUnauthorized)
		}
		w.Must("confirm", "token", "alice")
		w.allowed("the token that was confirmed", as("alice"))
		if !lost {
			w.Must("confirm", "token", "--all")
		}
		w.refused("the token that was revoked since", as("mallory"), api.ProblemUnauthorized)
	})
}

// Files that the restored state does not name do not affect it, and those of the replaced
// state are kept.
func TestPackageFilesComeWithTheBackup(t *testing.T) {
	w := begin(t, "package files", "package files of the backup are back, byte for byte; those of the replaced state are moved aside")
	before := w.script()
	file := w.backup()
	w.putScript("#!/bin/true\n")
	w.restored(file, false)
	w.kept("the package file", w.script(), before)
	aside, err := filepath.Glob(filepath.Join(w.Data(), "replaced-*"))
	if err != nil || len(aside) != 1 {
		t.Fatalf("set aside: %v, %v", aside, err)
	}
	kept, err := filepath.Glob(filepath.Join(aside[0], "blobs", "*", "*"))
	_, storeErr := os.Stat(filepath.Join(aside[0], "store.db"))
	if errors.Join(err, storeErr) != nil || len(kept) == 0 {
		t.Errorf("set aside are the package files %v, and of the store %v", kept, storeErr)
	}
}
