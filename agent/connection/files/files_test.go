package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

func random(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b) //nolint:errcheck // never fails
	return b
}

func refOf(content []byte) api.FileReference {
	sum := sha256.Sum256(content)
	return api.FileReference{Sha256: hex.EncodeToString(sum[:]), SizeBytes: int64(len(content))}
}

// arrived wants the file to be there, whole, for root alone, and nothing beside it.
func arrived(t *testing.T, s *Store, content []byte) {
	t.Helper()
	ref := refOf(content)
	f, err := s.Open(ref)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := io.ReadAll(f)
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("the file has another content (%d bytes, error %v)", len(got), err)
	}
	if info, err := f.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v; want 0600", info.Mode(), err)
	}
	if names := list(t, s); len(names) != 1 {
		t.Errorf("in the directory are %q", names)
	}
}

func list(t *testing.T, s *Store) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(s.Directory)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// waits wants a FileUnavailable that has these words.
func waits(t *testing.T, err error, words ...string) {
	t.Helper()
	var waiting *converge.Waiting
	if !errors.As(err, &waiting) || waiting.Reason != api.ReasonFileUnavailable {
		t.Fatalf("got %v, want to wait with FileUnavailable", err)
	}
	for _, word := range words {
		if !strings.Contains(waiting.Message, word) {
			t.Errorf("%q does not have %q", waiting.Message, word)
		}
	}
}

const mib = 1 << 20

func TestFetchesOnceAndVerifiesWhatIsThere(t *testing.T) {
	for _, size := range []int{0, 1, 3*mib + 17} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			c := serve(t, random(size))
			s := c.store(t.TempDir())
			for range 2 {
				if err := s.Fetch(t.Context(), refOf(c.content)); err != nil {
					t.Fatal(err)
				}
				arrived(t, s, c.content)
			}
			if _, sent := c.seen(); sent != size {
				t.Errorf("%d bytes were sent, want %d", sent, size)
			}
		})
	}
}

func TestGoesOnAfterACut(t *testing.T) {
	c := serve(t, random(3*mib))
	c.cutAfter = mib
	s := c.store(t.TempDir(), "https://127.0.0.1:1") // and another controller is down
	if err := s.Fetch(t.Context(), refOf(c.content)); err != nil {
		t.Fatal(err)
	}
	arrived(t, s, c.content)
	if ranges, sent := c.seen(); len(ranges) != 2 || ranges[0] != "" || !strings.HasPrefix(ranges[1], "bytes=") || sent > 3*mib+mib/2 {
		t.Errorf("asked for %q, %d bytes sent; want the rest to be asked for", ranges, sent)
	}
}

// A build of the agent is fetched as any file is, for the architecture of this machine.
func TestABuildOfTheAgentIsFetched(t *testing.T) {
	c := serve(t, random(2*mib))
	c.cutAfter = mib
	s := Agents(filepath.Join(t.TempDir(), ".nodehitch-agent.new"), slog.New(slog.DiscardHandler))
	s.Use(c.store(t.TempDir()).link.Load())
	if err := s.Fetch(t.Context(), refOf(c.content)); err != nil {
		t.Fatal(err)
	}
	arrived(t, s, c.content)
	if want := "/v1/agent/" + runtime.GOARCH; len(c.paths) != 2 || c.paths[0] != want || c.paths[1] != want || c.ranges[1] == "" {
		t.Errorf("asked for %q, %q", c.paths, c.ranges)
	}
}

func TestASilentDownloadIsCutOff(t *testing.T) {
	c := serve(t, random(mib))
	c.hangAfter = mib / 2
	s := c.store(t.TempDir())
	s.idleTimeout = 2 * time.Second
	if err := s.Fetch(t.Context(), refOf(c.content)); err != nil {
		t.Fatal(err)
	}
	arrived(t, s, c.content)
	if ranges, _ := c.seen(); len(ranges) != 2 {
		t.Errorf("asked for %q", ranges)
	}
}

func TestControllerThatNeverSpeaks(t *testing.T) {
	c := serve(t, random(10))
	c.answer = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	s := c.store(t.TempDir())
	s.idleTimeout = 100 * time.Millisecond
	waits(t, s.Fetch(t.Context(), refOf(c.content)), "no data received for 100ms", "0 of 10 bytes")
}

func TestGoesOnAfterARestart(t *testing.T) {
	c := serve(t, random(2*mib))
	dir := t.TempDir()
	leave(t, c.store(dir), refOf(c.content), c.content[:mib+5])
	s := c.store(dir)
	if err := s.Fetch(t.Context(), refOf(c.content)); err != nil {
		t.Fatal(err)
	}
	arrived(t, s, c.content)
	if ranges, sent := c.seen(); ranges[0] != fmt.Sprintf("bytes=%d-", mib+5) || sent != mib-5 {
		t.Errorf("asked for %q, %d bytes sent", ranges, sent)
	}
}

// leave puts what an earlier process had fetched of a file.
func leave(t *testing.T, s *Store, ref api.FileReference, content []byte) {
	t.Helper()
	if err := os.MkdirAll(s.Directory, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Path(ref)+partSuffix, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAllOfItWasThereBeforeTheCrash(t *testing.T) {
	c := serve(t, random(mib))
	s := c.store(t.TempDir())
	leave(t, s, refOf(c.content), c.content)
	if err := s.Fetch(t.Context(), refOf(c.content)); err != nil {
		t.Fatal(err)
	}
	arrived(t, s, c.content)
	if ranges, _ := c.seen(); len(ranges) != 0 {
		t.Errorf("asked for %q", ranges)
	}
}

func TestAnotherContentIsThrownAway(t *testing.T) {
	content := random(mib)
	for name, c := range map[string]struct {
		left  []byte
		first http.HandlerFunc
		words []string
	}{
		"what was there is damaged":           {append([]byte("x"), content[1:1000]...), nil, []string{"its SHA-256 is"}},
		"what was there is whole and damaged": {append([]byte("x"), content[1:]...), nil, []string{"its SHA-256 is"}},
		"the controller has a longer file": {nil, func(w http.ResponseWriter, _ *http.Request) { w.Write(append(content, 'x')) }, //nolint:errcheck // of a test server
			[]string{"more than"}},
		"the controller has another file": {nil, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, mib)) }, //nolint:errcheck // of a test server
			[]string{"its SHA-256 is"}},
		"the rest is another part": {content[:10], func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 5-20/1048576")
			w.WriteHeader(http.StatusPartialContent)
		}, []string{"asked for the rest from byte 10 on"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := serve(t, content)
			k.answer = c.first
			s := k.store(t.TempDir())
			if c.left != nil {
				leave(t, s, refOf(content), c.left)
			}
			waits(t, s.Fetch(t.Context(), refOf(content)), append(c.words, refOf(content).Sha256)...)
			k.answer = nil
			if err := s.Fetch(t.Context(), refOf(content)); err != nil {
				t.Fatal("and then:", err)
			}
			arrived(t, s, content)
			if ranges, _ := k.seen(); ranges[len(ranges)-1] != "" {
				t.Errorf("asked for %q, want all of it at last", ranges)
			}
		})
	}
}

func TestWhatWasThereIsLongerThanTheFile(t *testing.T) {
	c := serve(t, random(100))
	s := c.store(t.TempDir())
	leave(t, s, refOf(c.content), random(200))
	if err := s.Fetch(t.Context(), refOf(c.content)); err != nil {
		t.Fatal(err)
	}
	arrived(t, s, c.content)
}

func TestControllerThatDoesNotGiveIt(t *testing.T) {
	c := serve(t, random(10))
	c.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"type":"urn:nodehitch:problem:not-found","title":"not found","detail":"is not on the controller","status":404}`)
	}
	s := c.store(t.TempDir())
	waits(t, s.Fetch(t.Context(), refOf(c.content)), "is not on the controller", "hitchctl apply --package")
	c.server.URL = "https://127.0.0.1:1"
	s = c.store(t.TempDir())
	waits(t, s.Fetch(t.Context(), refOf(c.content)), "nothing listens there", "resumes from there")
}

func TestWithoutAController(t *testing.T) {
	content := random(10)
	s := New(t.TempDir(), slog.New(slog.DiscardHandler))
	waits(t, s.Fetch(t.Context(), refOf(content)), s.Path(refOf(content)), "no controller has been reached")
	if err := os.WriteFile(s.Path(refOf(content)), make([]byte, 10), 0o600); err != nil {
		t.Fatal(err)
	}
	waits(t, s.Fetch(t.Context(), refOf(content)), "no controller has been reached") // of another content
	if err := os.WriteFile(s.Path(refOf(content)), content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Fetch(t.Context(), refOf(content)); err != nil {
		t.Error(err)
	}
}

func TestFileThatDoesNotFit(t *testing.T) {
	c := serve(t, random(10))
	ref := refOf(c.content)
	ref.SizeBytes = 1 << 60
	err := c.store(t.TempDir()).Fetch(t.Context(), ref)
	if ranges, _ := c.seen(); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "are free") || len(ranges) != 0 {
		t.Errorf("got %v after %d requests, want ENOSPC before any", err, len(ranges))
	}
}

func TestDigestIsNeverAPath(t *testing.T) {
	s := serve(t, nil).store(t.TempDir())
	for _, sum := range []string{"", "../../../etc/passwd", strings.Repeat("A", 64), strings.Repeat("0", 63) + "/"} {
		var terminal *converge.Terminal
		if err := s.Fetch(t.Context(), api.FileReference{Sha256: sum}); !errors.As(err, &terminal) {
			t.Errorf("%q: got %v, want a terminal error", sum, err)
		}
	}
}

func TestOnlyWhatIsNamedIsKept(t *testing.T) {
	s := New(t.TempDir(), slog.New(slog.DiscardHandler))
	if err := s.Keep(nil); err != nil {
		t.Error("without a directory:", err)
	}
	a, b, half := refOf([]byte("a")), refOf([]byte("b")), refOf([]byte("half"))
	leave(t, s, half, []byte("h"))
	for _, ref := range []api.FileReference{a, b} {
		if err := os.WriteFile(s.Path(ref), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Keep([]api.FileReference{b, half}); err != nil {
		t.Error(err)
	}
	if got := list(t, s); len(got) != 2 || s.Has(a) || !s.Has(b) {
		t.Errorf("kept %q", got)
	}
	if err := errors.Join(s.Keep([]api.FileReference{b}), s.Remove(b), s.Remove(b)); err != nil {
		t.Error(err)
	}
	if got := list(t, s); len(got) != 0 {
		t.Errorf("kept %q", got)
	}
}

// The disk gets full during the download: the agent frees the space of the partial file.
func TestDiskThatGetsFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=0700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	ballast := filepath.Join(dir, "ballast")
	c := serve(t, random(3*mib))
	c.answer = func(w http.ResponseWriter, _ *http.Request) {
		if err := os.WriteFile(ballast, make([]byte, 2*mib), 0o600); err != nil {
			t.Error(err)
		}
		w.Write(c.content) //nolint:errcheck // the other side hangs up
	}
	s := c.store(dir)
	ref := refOf(c.content)
	if err := s.Fetch(t.Context(), ref); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want ENOSPC", err)
	}
	if info, err := os.Stat(s.Path(ref) + partSuffix); err != nil || info.Size() != 0 {
		t.Errorf("what came of it is still there: %v, %v", info, err)
	}
	c.answer = nil
	if err := s.Fetch(t.Context(), ref); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("tried again: %v, want ENOSPC", err)
	}
	if err := errors.Join(os.Remove(ballast), s.Fetch(t.Context(), ref)); err != nil {
		t.Fatal(err)
	}
	arrived(t, s, c.content)
	if ranges, _ := c.seen(); len(ranges) != 2 {
		t.Errorf("asked for %q; want nothing to be asked for that does not fit", ranges)
	}
}
