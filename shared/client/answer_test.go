package client_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/fault"
)

func answer(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func TestProblemDetails(t *testing.T) {
	server := serve(t, answer(400, "application/problem+json", `{"type":"urn:nodehitch:problem:invalid-request",
		"title":"the request is not valid","status":400,"invalidParams":[{"pointer":"/a","message":"b"}],"new":1}`), nil)
	_, err := client.Read[api.JoinToken](dial(t, server.options()).GetJoinToken(t.Context(), instance))
	var got *api.Problem
	if !errors.As(err, &got) {
		t.Fatalf("got %v, want a problem", err)
	}
	want := api.NewInvalid(fault.List{{Pointer: "/a", Message: "b"}})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if client.Status(err) != 400 {
		t.Errorf("status %d", client.Status(err))
	}
}

func TestAnswersOfSomethingElse(t *testing.T) {
	tests := map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"a proxy's page":       {answer(502, "text/html", "<html>Bad Gateway"), `answered 502 Bad Gateway with text/html that begins "<html>Bad Gateway"`},
		"a page with 200":      {answer(200, "text/html", "<html>login"), `200 OK with text/html that begins "<html>login"`},
		"a redirect":           {http.RedirectHandler("https://elsewhere.invalid/", http.StatusFound).ServeHTTP, "answered 302 Found"},
		"a hollow problem":     {answer(500, "application/problem+json", `{}`), `answered 500 Internal Server Error`},
		"broken JSON":          {answer(200, "application/json", `{"token":`), "200 OK with application/json that is no JSON, which is no answer of a controller"},
		"JSON of another form": {answer(200, "application/json", `{"token":5}`), "that has a number in the place of token, which"},
		"control characters":   {answer(500, "text/plain", "\x1b[2J"), `"\x1b[2J"`},
		"a very long answer":   {answer(500, "text/plain", strings.Repeat("x", 3<<20)), `xxx", which is no answer`},
		"a problem cut off": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			answer(500, "application/problem+json", `{"title"`)(w, r)
		}, "500 Internal Server Error, and then the connection ended before the whole answer was here"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := serve(t, test.handler, nil)
			_, err := client.Read[api.JoinToken](dial(t, server.options()).GetJoinToken(t.Context(), instance))
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), server.URL) || len(err.Error()) > 600 {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if client.Status(err) == 0 {
				t.Error("an answer came, but the error has no status")
			}
		})
	}
}

func TestDone(t *testing.T) {
	server := serve(t, answer(409, "application/problem+json", `{"type":"x","title":"in conflict","status":409}`), nil)
	if err := client.Done(dial(t, server.options()).DeleteInstance(t.Context(), instance, nil)); client.Status(err) != 409 {
		t.Errorf("got %v, want the problem", err)
	}
}
