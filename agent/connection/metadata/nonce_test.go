package metadata_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/connection/metadata"
)

const (
	server = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f"
	first  = "00112233445566778899aabbccddeeff"
	second = "ffeeddccbbaa99887766554433221100"
)

// shows is a metadata service that gives one answer after the other, and goes on with
// the last.
func shows(t *testing.T, answers ...http.HandlerFunc) *metadata.Service {
	t.Helper()
	var mu sync.Mutex
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/openstack/latest/meta_data.json" {
			t.Errorf("asked for %s %s", r.Method, r.URL)
		}
		mu.Lock()
		answer := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return metadata.At(s.URL)
}

func text(content string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(content)) }
}

// meta is what Nova shows of a server with this meta, "" for none.
func meta(of, items string) http.HandlerFunc {
	if items != "" {
		items = `, "meta": ` + items
	}
	return text(`{"uuid": "` + of + `", "hostname": "worker", "launch_index": 0, "devices": [], "random_seed": "AAAA"` + items + `}`)
}

func nonce(value string) string { return `{"role": "worker", "nodehitch_nonce": "` + value + `"}` }

func TestTheNonceIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		not     string
		answers []http.HandlerFunc
		want    string
		told    []string
	}{
		"there at once": {"", []http.HandlerFunc{meta(server, nonce(first))}, first, nil},
		"an old answer without items": {"", []http.HandlerFunc{meta(server, ""), meta(server, nonce(first))}, first,
			[]string{"does not show meta.nodehitch_nonce yet"}},
		"an old answer with other items": {"", []http.HandlerFunc{meta(server, `{"role": "worker"}`), meta(server, nonce(first))}, first,
			[]string{"does not show meta.nodehitch_nonce yet"}},
		"the previous nonce": {first, []http.HandlerFunc{meta(server, nonce(first)), meta(server, nonce(first)), meta(server, nonce(second))}, second,
			[]string{"still shows the previous nonce", "still shows the previous nonce"}},
		"the service is not there yet": {"", []http.HandlerFunc{http.NotFound, meta(server, nonce(first))}, first,
			[]string{"the metadata service does not answer"}},
		"something else under its name": {"", []http.HandlerFunc{meta(server, nonce("hello")), meta(server, nonce(first))}, first,
			[]string{"did not write"}},
		"a server id in capitals": {"", []http.HandlerFunc{meta(strings.ToUpper(server), nonce(first))}, first, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told []string
			got, err := shows(t, c.answers...).Nonce(t.Context(), metadata.Wanted{ServerID: server, Not: c.not}, func(why string) { told = append(told, why) })
			if err != nil || got != c.want || len(told) != len(c.told) {
				t.Fatalf("got %q, %v; told %q", got, err, told)
			}
			for i, want := range c.told {
				if !strings.Contains(told[i], want) || strings.Contains(told[i], first) || strings.Contains(told[i], "hello") {
					t.Errorf("told %q, want %q and no nonce in it", told[i], want)
				}
			}
		})
	}
}

func TestAnswersThatHaveNoNonce(t *testing.T) {
	elsewhere := httptest.NewServer(meta(server, nonce(first)))
	t.Cleanup(elsewhere.Close)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"none there": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "does not answer"},
		"an error":   {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "x", http.StatusInternalServerError) }, "500"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusFound)
		}, "302"},
		"a page":           {text("<html>" + first + "</html>"), "no JSON object"},
		"two objects":      {text(`{"uuid": "` + server + `", "meta": ` + nonce(first) + `}{}`), "no JSON object"},
		"a list":           {text(`["` + first + `"]`), "no JSON object"},
		"nothing":          {text("null"), "no uuid"},
		"no uuid":          {text(`{"meta": ` + nonce(first) + `}`), "no uuid"},
		"a uuid of no use": {meta(`x\n`, nonce(first)), "no uuid"},
		"another case":     {text(`{"uuid": "` + server + `", "META": ` + nonce(first) + `}`), "does not show"},
		"a list for meta":  {meta(server, `["nodehitch_nonce"]`), "meta that is no JSON object"},
		"a number":         {meta(server, `{"nodehitch_nonce": 12}`), "did not write"},
		"capitals":         {meta(server, nonce(strings.ToUpper(first))), "did not write"},
		"short":            {meta(server, nonce(first[:31])), "did not write"},
		"long":             {meta(server, nonce(first+"0")), "did not write"},
		"a line break":     {meta(server, nonce(first+`\n`)), "did not write"},
		"empty":            {meta(server, nonce("")), "did not write"},
		"null":             {meta(server, `{"nodehitch_nonce": null}`), "did not write"},
		"huge":             {text(`{"uuid": "` + server + `", "meta": {"x": "` + strings.Repeat("x", 1<<20) + `", "nodehitch_nonce": "` + first + `"}}`), "more than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := shows(t, c.answer).Nonce(t.Context(), metadata.Wanted{ServerID: server, Wait: time.Nanosecond}, func(string) {})
			var timeout *metadata.NonceTimeout
			if got != "" || !errors.As(err, &timeout) || !strings.Contains(timeout.Last, c.want) {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// The machine claims to be another server than its cloud says: no nonce can help, and the
// operator has to know why.
func TestAnotherServerThanClaimed(t *testing.T) {
	const other = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e70"
	_, err := shows(t, meta(other, nonce(first))).Nonce(t.Context(), metadata.Wanted{ServerID: server}, func(string) { t.Error("waited") })
	var is *metadata.OtherServer
	if !errors.As(err, &is) || is.Found != other || is.Claimed != server {
		t.Fatal(err)
	}
}

func TestAServiceThatHangsEndsWithTheContext(t *testing.T) {
	asked := make(chan struct{})
	s := shows(t, func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := s.Nonce(ctx, metadata.Wanted{ServerID: server}, func(string) { t.Error("waited") }); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// It is asked a few times while nothing changes, not all the time.
func TestWaitingIsNoBusyLoop(t *testing.T) {
	asked := 0
	answer := meta(server, "")
	s := shows(t, func(w http.ResponseWriter, r *http.Request) { asked++; answer(w, r) })
	_, err := s.Nonce(t.Context(), metadata.Wanted{ServerID: server, Wait: 2 * time.Second}, func(string) {})
	var timeout *metadata.NonceTimeout
	if !errors.As(err, &timeout) || timeout.After < 2*time.Second || asked < 3 || asked > 6 {
		t.Errorf("asked %d times, %v", asked, err)
	}
}
