package files_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/files"
	"github.com/nodehitch/nodehitch/controller/store/storetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	instance = "11111111-2222-3333-4444-555555555555"
	path     = "Files/kubernetes/nfs-pv1.yaml"
)

type room struct {
	*files.Service
	dir string
	now time.Time
}

func open(t *testing.T, maxBytes int64) *room {
	t.Helper()
	r := &room{dir: t.TempDir(), now: time.Now()}
	s, err := storetest.Open(t, store.Options{Path: filepath.Join(r.dir, "store.db"), Key: store.KeySource{File: filepath.Join(r.dir, "key"), Create: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	r.Service = &files.Service{Store: s, Now: func() time.Time { return r.now }, Log: slog.New(slog.DiscardHandler)}
	r.restart(t, maxBytes)
	return r
}

// restart forgets what is only in memory.
func (r *room) restart(t *testing.T, maxBytes int64) {
	t.Helper()
	blobs, err := files.OpenBlobs(r.dir, maxBytes, func() time.Time { return r.now })
	if err != nil {
		t.Fatal(err)
	}
	r.Blobs = blobs
}

// put uploads content as the part that contentRange names, "" for the whole.
func (r *room) put(content, contentRange string) (files.Stored, error) {
	return r.Put(context.Background(), files.Request{InstanceID: instance, Path: path, Body: strings.NewReader(content),
		ContentLength: int64(len(content)), ContentRange: contentRange})
}

func (r *room) content(t *testing.T) string {
	t.Helper()
	f, _, err := r.Open(context.Background(), instance, path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	content, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// onDisk is how many files lie below one of the directories.
func (r *room) onDisk(t *testing.T, dir string) int {
	t.Helper()
	n := 0
	err := filepath.WalkDir(filepath.Join(r.dir, dir), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func wantProblem(t *testing.T, err error, problemType, word string) {
	t.Helper()
	var p *api.Problem
	if !errors.As(err, &p) || p.Type != problemType || !strings.Contains(p.Detail, word) {
		t.Errorf("got %v, want %s with %q", err, problemType, word)
	}
}

func TestAFileIsStoredOnceByItsContent(t *testing.T) {
	r := open(t, 1<<20)
	stored, err := r.put("content", "")
	if err != nil {
		t.Fatal(err)
	}
	if !stored.Whole || stored.File.Sha256 != digest("content") || stored.File.SizeBytes != 7 || stored.Replaced {
		t.Errorf("%+v", stored)
	}
	again, err := r.put("content", "")
	if err != nil || again.Replaced || r.content(t) != "content" || r.onDisk(t, "blobs") != 1 || r.onDisk(t, "uploads") != 0 {
		t.Errorf("the same again: %+v, %v; %d blobs, %d uploads", again, err, r.onDisk(t, "blobs"), r.onDisk(t, "uploads"))
	}
	empty, err := r.put("", "")
	if err != nil || !empty.Whole || !empty.Replaced || r.content(t) != "" {
		t.Errorf("an empty file: %+v, %v", empty, err)
	}
}

func TestAnUploadInPartsGoesOnAlsoAfterARestart(t *testing.T) {
	for name, restart := range map[string]bool{"running on": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			r := open(t, 1<<20)
			steps := []struct {
				content, contentRange string
				arrived               int64
			}{
				{"", "bytes */10", 0},         // nothing yet
				{"0123", "bytes 0-3/10", 4},   // the first part
				{"", "bytes */10", 4},         // ask
				{"89", "bytes 8-9/10", 4},     // a part too far: nothing is taken
				{"2345", "bytes 2-5/10", 6},   // overlapping: the later one wins
				{"6789", "bytes 6-9/10", 10},  // the last
				{"ab", "bytes 0-1/2", 2},      // and another content of the same path
				{"9876543210", "", 10},        // whole
				{"01234", "bytes 0-4/10", 5},  // begun anew
				{"xxxxx", "bytes 5-9/10", 10}, // finished
			}
			for i, step := range steps {
				stored, err := r.put(step.content, step.contentRange)
				if err != nil || stored.Arrived != step.arrived {
					t.Fatalf("step %d: %+v, %v; want %d arrived", i, stored, err, step.arrived)
				}
				if i == 5 && (!stored.Whole || r.content(t) != "0123456789") {
					t.Errorf("%+v %q", stored, r.content(t))
				}
				if restart {
					r.restart(t, 1<<20)
				}
			}
			if got := r.content(t); got != "01234xxxxx" {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestABrokenConnectionKeepsWhatArrived(t *testing.T) {
	r := open(t, 1<<20)
	cut := io.MultiReader(strings.NewReader("01234"), iotest.ErrReader(io.ErrUnexpectedEOF))
	_, err := r.Put(context.Background(), files.Request{InstanceID: instance, Path: path, Body: cut, ContentLength: 10})
	wantProblem(t, err, api.ProblemInvalid, "continue with Content-Range from byte 5")
	if stored, err := r.put("56789", "bytes 5-9/10"); err != nil || !stored.Whole || r.content(t) != "0123456789" {
		t.Errorf("%+v, %v", stored, err)
	}
}

func TestAnUploadOfUnknownLengthIsTakenOrLeavesNothing(t *testing.T) {
	r := open(t, 10)
	put := func(body io.Reader) (files.Stored, error) {
		return r.Put(context.Background(), files.Request{InstanceID: instance, Path: path, Body: body, ContentLength: -1})
	}
	if stored, err := put(strings.NewReader("0123456789")); err != nil || !stored.Whole {
		t.Errorf("%+v, %v", stored, err)
	}
	_, err := put(strings.NewReader("0123456789a"))
	wantProblem(t, err, api.ProblemTooLarge, "larger than 10 bytes")
	_, err = put(iotest.ErrReader(io.ErrUnexpectedEOF))
	wantProblem(t, err, api.ProblemInvalid, "broke off")
	if r.onDisk(t, "uploads") != 0 || r.content(t) != "0123456789" {
		t.Errorf("%d uploads are left", r.onDisk(t, "uploads"))
	}
}

func TestWhatIsNotWhatWasAnnouncedIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		request files.Request
		typ     string
		word    string
	}{
		"another digest":      {files.Request{Body: strings.NewReader("abc"), ContentLength: 3, SHA256: digest("abd")}, api.ProblemInvalid, "expected " + digest("abd")},
		"too long for range":  {files.Request{Body: strings.NewReader("abc"), ContentLength: -1, ContentRange: "bytes 0-1/4"}, api.ProblemInvalid, "longer than the 2 bytes"},
		"too short for range": {files.Request{Body: strings.NewReader("a"), ContentLength: -1, ContentRange: "bytes 0-1/4"}, api.ProblemInvalid, "ended after 1 of 2"},
		"range and length":    {files.Request{ContentLength: 3, ContentRange: "bytes 0-1/4"}, api.ProblemInvalid, "the body has 3"},
		"range outside":       {files.Request{ContentLength: 3, ContentRange: "bytes 2-4/4"}, api.ProblemInvalid, "not within a file of 4"},
		"no range":            {files.Request{ContentRange: "bytes=0-3"}, api.ProblemInvalid, "expected \"bytes <first>"},
		"huge range":          {files.Request{ContentRange: "bytes */99999999999999999999"}, api.ProblemInvalid, "too large"},
		"too large":           {files.Request{ContentLength: 1 << 40}, api.ProblemTooLarge, "larger than"},
		"outside the package": {files.Request{Path: "../etc/passwd"}, api.ProblemInvalid, "path of the package file"},
		"absolute":            {files.Request{Path: "/etc/passwd"}, api.ProblemInvalid, "path of the package file"},
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, 1<<20)
			test.request.InstanceID = instance
			if test.request.Path == "" {
				test.request.Path = path
			}
			_, err := r.Put(context.Background(), test.request)
			wantProblem(t, err, test.typ, test.word)
			if r.onDisk(t, "blobs") != 0 {
				t.Error("there is a blob")
			}
			_, _, err = r.Open(context.Background(), instance, path)
			wantProblem(t, err, api.ProblemNotFound, "has no package file")
		})
	}
}

func TestTwoRequestsDoNotMixInOneUpload(t *testing.T) {
	r := open(t, 1<<20)
	reading, goOn := make(chan struct{}), make(chan struct{})
	var first sync.WaitGroup
	first.Go(func() {
		if _, err := r.Put(context.Background(), files.Request{InstanceID: instance, Path: path, ContentLength: 3,
			Body: &paused{Reader: strings.NewReader("abc"), reading: reading, goOn: goOn}}); err != nil {
			t.Error(err)
		}
	})
	<-reading
	inHaste, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := r.Put(inHaste, files.Request{InstanceID: instance, Path: path, Body: strings.NewReader("xyz"), ContentLength: 3})
	wantProblem(t, err, api.ProblemConflict, "another request is uploading this file")
	var second sync.WaitGroup
	second.Go(func() {
		if stored, err := r.put("", "bytes */3"); err != nil || stored.Arrived != 0 {
			t.Errorf("after the first has become whole: %+v, %v", stored, err)
		}
	})
	close(goOn)
	second.Wait()
	first.Wait()
	if got := r.content(t); got != "abc" {
		t.Errorf("got %q", got)
	}
}

// paused says when it is first read from, and waits.
type paused struct {
	io.Reader
	reading, goOn chan struct{}
	once          sync.Once
}

func (p *paused) Read(b []byte) (int, error) {
	p.once.Do(func() { close(p.reading) })
	<-p.goOn
	return p.Reader.Read(b)
}

func TestCollectRemovesWhatNothingNames(t *testing.T) {
	r := open(t, 1<<20)
	for _, content := range []string{"old", "new"} {
		if _, err := r.put(content, ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.put("1", "bytes 0-0/2"); err != nil {
		t.Fatal(err)
	}
	if err := r.Collect(context.Background()); err != nil {
		t.Fatal(err)
	}
	if r.content(t) != "new" || r.onDisk(t, "blobs") != 1 || r.onDisk(t, "uploads") != 1 {
		t.Errorf("%d blobs, %d uploads are left; want 1 and the young upload", r.onDisk(t, "blobs"), r.onDisk(t, "uploads"))
	}
	r.now = r.now.Add(25 * time.Hour)
	if err := r.Collect(context.Background()); err != nil {
		t.Fatal(err)
	}
	if r.onDisk(t, "blobs") != 1 || r.onDisk(t, "uploads") != 0 {
		t.Errorf("%d uploads are left after a day", r.onDisk(t, "uploads"))
	}
}

// An upload that is not continued is gone a day later, though no request comes.
func TestAnAbandonedUploadIsGoneAfterADay(t *testing.T) {
	storetest.OnlyBbolt(t, storetest.Bubble)
	synctest.Test(t, func(t *testing.T) {
		r := open(t, 100)
		_, _ = r.put("01234", "bytes 0-4/10")
		part, err := filepath.Glob(filepath.Join(r.dir, "uploads", "*"))
		if err != nil || len(part) != 1 {
			t.Fatalf("unfinished uploads %v, %v", part, err)
		}
		begun := time.Now()
		if err := os.Chtimes(part[0], begun, begun); err != nil { // the bubble has a clock of its own
			t.Fatal(err)
		}
		r.Blobs, err = files.OpenBlobs(r.dir, 100, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go r.Run(ctx)
		time.Sleep(23 * time.Hour)
		synctest.Wait()
		if n := r.onDisk(t, "uploads"); n != 1 {
			t.Errorf("%d unfinished uploads after 23 hours, want the one", n)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if n := r.onDisk(t, "uploads"); n != 0 {
			t.Errorf("%d unfinished uploads after 25 hours", n)
		}
		cancel()
		synctest.Wait()
	})
}

func TestAQuestionLeavesNothing(t *testing.T) {
	r := open(t, 100)
	if stored, err := r.put("", "bytes */10"); err != nil || stored.Arrived != 0 {
		t.Fatalf("%+v, %v", stored, err)
	}
	if n := r.onDisk(t, "uploads"); n != 0 {
		t.Errorf("%d files are left of a question", n)
	}
}

func TestUploadsAndCollectionsSideBySideLoseNothing(t *testing.T) {
	r := open(t, 1<<20)
	ctx := context.Background()
	var uploads, collections sync.WaitGroup
	done := make(chan struct{})
	collections.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				if err := r.Collect(ctx); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for i := range 8 {
		uploads.Go(func() {
			name := fmt.Sprintf("file-%d", i)
			if _, err := r.Put(ctx, files.Request{InstanceID: instance, Path: name, Body: strings.NewReader(name), ContentLength: int64(len(name))}); err != nil {
				t.Error(err)
			}
		})
	}
	uploads.Wait()
	close(done)
	collections.Wait()
	for i := range 8 {
		f, _, err := r.Open(ctx, instance, fmt.Sprintf("file-%d", i))
		if err != nil {
			t.Error(err)
			continue
		}
		f.Close()
	}
}

// An upload takes the content away that a path had when its record was read.
func TestAPathIsReadWhileUploadsReplaceIt(t *testing.T) {
	r := open(t, 1<<20)
	ctx := context.Background()
	if _, err := r.put("before", ""); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				f, _, err := r.Open(ctx, instance, path)
				if err != nil {
					t.Error(err)
					return
				}
				f.Close()
			}
		})
	}
	for n := range 30 {
		if _, err := r.put(fmt.Sprint(n), ""); err != nil {
			t.Error(err)
		}
		if err := r.Collect(ctx); err != nil {
			t.Error(err)
		}
	}
	close(done)
	readers.Wait()
}

func TestBlobsAreThereByDigestAlone(t *testing.T) {
	r := open(t, 1<<20)
	for _, name := range []string{"", "..", "../store.db", strings.Repeat("z", 64), strings.Repeat("0", 64)} {
		if _, err := r.OpenBlob(context.Background(), name); !errors.Is(err, files.ErrNoBlob) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestCutUploadsOfUnknownLengthAreGoneAfterARestart(t *testing.T) {
	r := open(t, 1<<20)
	leftover := filepath.Join(r.dir, "uploads", "once-abc")
	if err := os.WriteFile(leftover, bytes.Repeat([]byte("x"), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	r.restart(t, 1<<20)
	if _, err := os.Stat(leftover); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
