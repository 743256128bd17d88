package files_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/files"
	"github.com/nodehitch/nodehitch/controller/store/storetest"
)

// disk is another replica's package files, without the network between: controller/replica
// tests that.
type disk struct{ *files.Blobs }

func (d disk) Fetch(_ context.Context, sha256 string, receive func(int64, io.Reader) error) error {
	size, err := d.Size(sha256)
	if err != nil {
		return err
	}
	f, err := d.OpenHere(sha256)
	if err != nil {
		return err
	}
	defer f.Close()
	return receive(size, f)
}

func (d disk) Copy(context.Context, files.Blob, io.ReaderAt) error { return nil }

// The leader notices at once that a file is lost, and within minutes that a replica has come
// that has it.
func TestALostFileIsLookedForAgain(t *testing.T) {
	storetest.OnlyBbolt(t, storetest.Bubble)
	synctest.Test(t, func(t *testing.T) {
		r := open(t, 100)
		if _, err := r.put("content", ""); err != nil {
			t.Fatal(err)
		}
		other, err := files.OpenBlobs(t.TempDir(), 100, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		r.Blobs.Peers = disk{other}
		if err := os.Remove(filepath.Join(r.dir, "blobs", digest("content")[:2], digest("content"))); err != nil {
			t.Fatal(err)
		}
		lost := func() (is bool) {
			err := r.Store.View(func(tx *store.Tx) error {
				f, _, err := tx.Files().Get(store.FileKey(instance, path))
				is = f.Lost
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return is
		}
		ctx, cancel := context.WithCancel(t.Context())
		go r.Run(ctx)
		synctest.Wait()
		if !lost() {
			t.Error("it is not noted as lost")
		}
		if _, _, err := other.Take(ctx, digest("content"), files.Range{Last: 6, Total: 7}, strings.NewReader("content")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if lost() || r.content(t) != "content" {
			t.Error("it was not found again")
		}
		cancel()
		synctest.Wait()
	})
}
