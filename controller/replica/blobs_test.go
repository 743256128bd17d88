package replica_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/core/controllertest"
	"github.com/nodehitch/nodehitch/controller/replica"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/files"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// fleet is replicas that know each other's package files.
type fleet struct {
	t     testing.TB
	sites []*site
	// dead are not alive any more for the others.
	dead map[*site]bool
	log  controllertest.Log
}

func newFleet(t testing.TB, n int, maxBytes int64) *fleet {
	t.Helper()
	f := &fleet{t: t, dead: map[*site]bool{}}
	for range n {
		f.sites = append(f.sites, newSite(t, maxBytes))
	}
	for _, s := range f.sites {
		client := replica.NewClient(trust(t, 1))
		t.Cleanup(client.Close)
		s.blobs.Peers = &replica.Files{Client: client, Others: func() []string { return f.others(s) }, Log: slog.New(slog.NewTextHandler(&f.log, nil))}
	}
	return f
}

func (f *fleet) others(of *site) (urls []string) {
	for _, s := range f.sites {
		if s != of && !f.dead[s] {
			urls = append(urls, s.url)
		}
	}
	return urls
}

// has reports whether the replica has the content on its own disk, intact.
func (s *site) has(content string) bool {
	on, err := os.ReadFile(filepath.Join(s.dir, "blobs", digest(content)[:2], digest(content)))
	return err == nil && string(on) == content
}

// service is that of the leader.
func (s *site) service(t testing.TB) *files.Service {
	t.Helper()
	db, err := store.Open(store.Options{Path: filepath.Join(t.TempDir(), "store.db"), Key: store.KeySource{File: filepath.Join(t.TempDir(), "key"), Create: true}})
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return &files.Service{Store: db, Blobs: s.blobs, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
}

func upload(t testing.TB, s *files.Service, content string) error {
	t.Helper()
	_, err := s.Put(t.Context(), files.Request{InstanceID: instanceID, Path: "Files/a", Body: strings.NewReader(content), ContentLength: int64(len(content))})
	return err
}

// An upload is acknowledged when two replicas have it, or the only one that is alive.
func TestAnUploadIsOnTwoReplicas(t *testing.T) {
	f := newFleet(t, 3, 1<<20)
	a, b, c := f.sites[0], f.sites[1], f.sites[2]
	service := a.service(t)
	for _, content := range []string{"content", "", strings.Repeat("x", 1<<20)} {
		must(t, upload(t, service, content))
		if !a.has(content) || !b.has(content) || c.has(content) {
			t.Errorf("%d bytes are on %v %v %v", len(content), a.has(content), b.has(content), c.has(content))
		}
		must(t, upload(t, service, content)) // which the other one has already
	}
	// One that does not answer is passed over.
	b.stop(t)
	must(t, upload(t, service, "second"))
	if !a.has("second") || !c.has("second") {
		t.Error("the second is not on a and c")
	}
	// One copy is not enough while another replica is alive.
	c.stop(t)
	var problem *wire.Problem
	if err := upload(t, service, "third"); !errors.As(err, &problem) || problem.Type != wire.ProblemUnavailable || !strings.Contains(problem.Detail, "no second replica") {
		t.Errorf("error %v", err)
	}
	if a.has("third") {
		t.Error("it is kept")
	}
	if file, _, err := service.Open(t.Context(), instanceID, "Files/a"); err != nil || file.Close() != nil {
		t.Errorf("the file before: %v", err)
	}
	if strings.Contains(f.log.String(), "no other replica is alive") {
		t.Error("it is said that no other replica is alive")
	}
	f.dead[b], f.dead[c] = true, true
	must(t, upload(t, service, "third"))
	if !a.has("third") || !strings.Contains(f.log.String(), "no other replica is alive") {
		t.Error("alone, it is not kept or not logged")
	}
}

// A replica gets what it lacks when it is asked for it, once for all who ask.
func TestContentIsFetchedOnDemand(t *testing.T) {
	f := newFleet(t, 3, 8<<20)
	content := strings.Repeat("0123456789abcdef", 4<<20/16)
	service := f.sites[0].service(t)
	must(t, upload(t, service, content))
	c := f.sites[2]
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			file, err := c.blobs.Open(digest(content))
			if err != nil {
				t.Error(err)
				return
			}
			defer file.Close()
			if got, err := io.ReadAll(file); err != nil || string(got) != content {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	all.Wait()
	if !c.has(content) {
		t.Error("it is not kept")
	}
	if n := f.sites[0].listener.accepted.Load() + f.sites[1].listener.accepted.Load(); n != 2 { // the copy of the upload, and the fetch
		t.Errorf("%d connections", n)
	}
	if _, err := c.blobs.Open(digest("nobody has it")); !errors.Is(err, files.ErrNoBlob) {
		t.Errorf("error %v", err)
	}
	if _, err := c.blobs.Open("../../seal.key"); !errors.Is(err, files.ErrNoBlob) {
		t.Errorf("error %v", err)
	}
	// Of a replica that does not answer it is not known what it has.
	f.sites[1].stop(t)
	var problem *wire.Problem
	if _, err := c.blobs.Open(digest("nobody has it")); errors.Is(err, files.ErrNoBlob) || !errors.As(err, &problem) || problem.Type != wire.ProblemUnavailable {
		t.Errorf("error %v", err)
	}
	// A pin keeps what is fetched for it.
	must(t, upload(t, service, "pinned")) // a and c have it
	f.dead[f.sites[1]] = true
	must(t, os.Remove(filepath.Join(c.dir, "blobs", digest("pinned")[:2], digest("pinned"))))
	release, err := c.blobs.Pin(func() ([]string, error) { return []string{digest("pinned")}, nil })
	must(t, err)
	if size, err := c.blobs.Size(digest("pinned")); err != nil || size != 6 {
		t.Errorf("%d %v", size, err)
	}
	nothing := func() (map[string]bool, error) { return nil, nil }
	removed, err := c.blobs.Collect(0, nothing)
	must(t, err)
	if !c.has("pinned") || removed != 1 {
		t.Errorf("%d are removed", removed)
	}
	release()
	if removed, err := c.blobs.Collect(0, nothing); err != nil || removed != 1 {
		t.Errorf("%d are removed, %v", removed, err)
	}
}

// What another replica sends is checked before it is there.
func TestContentOfAnotherDigestIsRefused(t *testing.T) {
	b := newSite(t, 100)
	client := replica.NewClient(trust(t, 1))
	defer client.Close()
	put := func(name, content, span string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, b.url+"/internal/blobs/"+name, strings.NewReader(content))
		must(t, err)
		if span != "" {
			r.Header.Set("Content-Range", span)
		}
		a, err := client.RoundTrip(r)
		must(t, err)
		defer a.Body.Close()
		return a.StatusCode, a.Header.Get("Upload-Offset")
	}
	for what, test := range map[string]struct {
		name, content, span string
		status              int
	}{
		"other content":      {digest("x"), "y", "", http.StatusUnprocessableEntity},
		"a name":             {"x", "x", "", http.StatusBadRequest},
		"capitals":           {strings.ToUpper(digest("x")), "x", "", http.StatusBadRequest},
		"more than it takes": {digest(strings.Repeat("x", 101)), strings.Repeat("x", 101), "", http.StatusRequestEntityTooLarge},
		"no range":           {digest("x"), "x", "bytes 5", http.StatusBadRequest},
	} {
		if status, _ := put(test.name, test.content, test.span); status != test.status {
			t.Errorf("%s: %d, want %d", what, status, test.status)
		}
	}
	if entries, err := filepath.Glob(filepath.Join(b.dir, "*", "*")); err != nil || len(entries) != 0 {
		t.Errorf("it has %v", entries)
	}
	// A copy that was cut goes on where it stopped.
	whole := strings.Repeat("0123456789", 5)
	put(digest(whole), whole[:20], "bytes 0-19/50")
	if status, at := put(digest(whole), "", "bytes */50"); status != http.StatusPermanentRedirect || at != "20" {
		t.Errorf("%d, %s bytes have arrived", status, at)
	}
	must(t, (&replica.Files{Client: client, Others: func() []string { return []string{b.url} }, Log: slog.New(slog.DiscardHandler)}).
		Copy(t.Context(), files.Blob{SHA256: digest(whole), SizeBytes: 50}, tail{strings.NewReader(whole)}))
	if !b.has(whole) {
		t.Error("it is not there")
	}
}

// tail is content whose beginning nobody may read again.
type tail struct{ *strings.Reader }

func (r tail) ReadAt(p []byte, at int64) (int, error) {
	if at < 20 {
		return 0, errors.New("read again from the beginning")
	}
	return r.Reader.ReadAt(p, at)
}

// A replica has content before the leader has the record: it is not collected at once, also if
// it was here long before.
func TestCopiesAreNotCollectedAtOnce(t *testing.T) {
	f := newFleet(t, 2, 1<<20)
	a, b := f.sites[0], f.sites[1]
	must(t, upload(t, a.service(t), "content"))
	nothing := func() (map[string]bool, error) { return nil, nil }
	collect := func() int {
		removed, err := b.blobs.Collect(time.Hour, nothing)
		must(t, err)
		return removed
	}
	if collect() != 0 {
		t.Error("a copy is removed at once")
	}
	path := filepath.Join(b.dir, "blobs", digest("content")[:2], digest("content"))
	long := time.Now().Add(-2 * time.Hour)
	must(t, os.Chtimes(path, long, long))
	must(t, upload(t, a.service(t), "content"))
	if collect() != 0 {
		t.Error("a copy that was acknowledged again is removed")
	}
	must(t, os.Chtimes(path, long, long))
	if collect() != 1 {
		t.Error("it stays for ever")
	}
}

// A file whose content no replica has is missing until it is there again.
func TestLostFilesAreNoted(t *testing.T) {
	f := newFleet(t, 3, 1<<20)
	a, b, c := f.sites[0], f.sites[1], f.sites[2]
	service := a.service(t)
	must(t, upload(t, service, "content"))
	lost := func() bool {
		must(t, service.FindLost(t.Context()))
		var record store.File
		must(t, service.Store.View(func(tx *store.Tx) (err error) {
			record, _, err = tx.Files().Get(store.FileKey(instanceID, "Files/a"))
			return err
		}))
		return record.Lost
	}
	remove := func(s *site) {
		must(t, os.Remove(filepath.Join(s.dir, "blobs", digest("content")[:2], digest("content"))))
	}
	remove(a) // as a new disk
	if lost() || !a.has("content") {
		t.Error("what b has is lost, or not fetched")
	}
	remove(a)
	b.stop(t)
	if lost() {
		t.Error("it is lost while a replica that may have it does not answer")
	}
	f.dead[b] = true
	if !lost() {
		t.Error("what no live replica has is not lost")
	}
	if _, _, err := service.Open(t.Context(), instanceID, "Files/a"); err == nil || !strings.Contains(err.Error(), "PUT it there") {
		t.Errorf("error %v", err)
	}
	must(t, func() error {
		_, _, err := c.blobs.Take(context.Background(), digest("content"), files.Range{Last: 6, Total: 7}, bytes.NewReader([]byte("content")))
		return err
	}())
	if lost() || !a.has("content") {
		t.Error("it is lost although a replica has it again")
	}
	remove(a)
	remove(c)
	if !lost() {
		t.Error("not lost")
	}
	must(t, upload(t, service, "content"))
	if lost() {
		t.Error("it is lost although it was uploaded again")
	}
}
