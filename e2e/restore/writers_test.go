package restore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

const writers = 50

// ledger is what the controller has acknowledged, by instance: the content of its
// package file.
type ledger struct {
	mu    sync.Mutex
	files map[string]string
	count int
}

func (l *ledger) note(id, content string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	if content == "" {
		delete(l.files, id)
		return
	}
	l.files[id] = content
}

func (l *ledger) written() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[string]string, len(l.files))
	for id, content := range l.files {
		all[id] = content
	}
	return all
}

// Writers make instances with a package file each, and delete every third of them,
// with which its content is collected.
func TestBackupWhileFiftyWrite(t *testing.T) {
	w := begin(t, "backup under load", "backups while 50 clients write are whole, and hold all that was acknowledged before they began")
	l := &ledger{files: map[string]string{}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var group sync.WaitGroup
	for range writers {
		group.Go(func() { w.write(ctx, l) })
	}
	const backups = 3
	var files []string
	var before []map[string]string
	for i := range backups {
		loopback.Until(t, "the writers are at work", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.count > 60*(i+1) })
		before = append(before, l.written())
		files = append(files, w.backup())
	}
	stop()
	group.Wait()
	w.c.Figure("writes", "%d by %d clients", l.count, writers)
	for i, file := range files {
		w.holds(file, before[i], l)
	}
}

// write makes and deletes instances until ctx ends.
func (w *world) write(ctx context.Context, l *ledger) {
	for n := 0; ctx.Err() == nil; n++ {
		id := uuid.NewString()
		content := "#!/bin/sh\n# " + id + "\n"
		_, err := client.Read[api.Instance](w.API.PutInstance(ctx, id, api.InstanceSpec{AdditionalParams: registry}))
		if err == nil {
			_, err = client.Read[api.PackageFile](w.API.PutFileWithBody(ctx, id, "Files/x", nil, "application/octet-stream", strings.NewReader(content)))
		}
		if err == nil {
			l.note(id, content)
			if n%3 != 2 {
				continue
			}
			// Taken from the ledger first: a backup in between may have it or not.
			l.note(id, "")
			err = client.Done(w.API.DeleteInstance(ctx, id))
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
			w.t.Errorf("writing: %v", err)
			return
		}
	}
}

var registry = []byte(`{"private_registry_installation_param": {"ssh_cp_name": "cp", "nic_cp_name": "cp", "image_path": "Files/images/private_registry.tar"}}`)

// holds restores the backup on a machine of its own, with the key and the CA of this
// one, and compares.
func (w *world) holds(file string, before map[string]string, l *ledger) {
	w.t.Helper()
	there := &world{Controller: loopback.Open(w.t, loopback.Options{}), t: w.t, c: w.c}
	there.End(15)
	w.must(os.RemoveAll(there.Data()))
	w.must(os.MkdirAll(there.Data(), 0o700))
	w.must(os.CopyFS(filepath.Join(there.Data(), "pki"), os.DirFS(filepath.Join(w.Data(), "pki"))))
	key, err := os.ReadFile(filepath.Join(w.Data(), "seal.key"))
	w.must(err)
	w.must(os.WriteFile(filepath.Join(there.Data(), "seal.key"), key, 0o600))
	w.must(filepath.WalkDir(there.Data(), private))
	if out, err := there.restore(file); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	there.Start()
	list, err := client.Read[api.InstanceList](there.API.ListInstances(w.t.Context(), nil))
	w.must(err)
	found := map[string]bool{}
	for _, i := range list.Items {
		found[i.ID] = true
	}
	after := l.written()
	for id, content := range before {
		if _, stays := after[id]; !stays {
			continue // it was deleted while the backup was taken
		}
		if !found[id] {
			w.c.Lost(int64(len(content)))
			w.t.Errorf("instance %s was acknowledged before the backup and is not in it", id)
		}
	}
	w.c.Lost(0)
	w.c.Figure("instances in a backup", "%d of %d acknowledged before", len(found), len(before))
}

func private(path string, d os.DirEntry, err error) error {
	if err != nil {
		return err
	}
	mode := os.FileMode(0o600)
	if d.IsDir() {
		mode = 0o700
	}
	return os.Chmod(path, mode)
}
