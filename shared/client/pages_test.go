package client_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// pages answers a list of tokens, each page with the Link of its marker.
func pages(t *testing.T, links map[string]string) (all []api.Token, requests []string, err error) {
	t.Helper()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.Host+" "+r.URL.Path+" "+r.URL.RawQuery)
		if len(requests) > 10 {
			w.WriteHeader(http.StatusLoopDetected)
			return
		}
		marker := r.URL.Query().Get("marker")
		w.Header().Set("Content-Type", "application/json")
		if links[marker] != "" {
			w.Header().Set("Link", links[marker])
		}
		fmt.Fprintf(w, `{"items": [{"id": "after %s"}]}`, marker)
	}, nil)
	c := dial(t, server.options())
	all, err = client.All[api.Token](func(page client.RequestEditorFn) (*http.Response, error) { return c.ListTokens(t.Context(), nil, page) })
	for i := range requests {
		requests[i] = strings.TrimPrefix(requests[i], strings.TrimPrefix(server.URL, "https://")+" ")
	}
	return all, requests, err
}

// The next page is asked for where the first one was, whatever else its link says: a token
// goes with it.
func TestPagesAreFollowedOnTheSamePath(t *testing.T) {
	all, requests, err := pages(t, map[string]string{
		"":  `<https://elsewhere.example/v2/tokens?limit=7&marker=a>; rel="next"`,
		"a": `</v1/tokens?marker=b>; rel=prev, </v1/tokens?limit=7&marker=c>; rel="next"`,
	})
	want := []string{"/v1/tokens limit=500", "/v1/tokens limit=7&marker=a", "/v1/tokens limit=7&marker=c"}
	if err != nil || !slices.Equal(requests, want) || len(all) != 3 || all[2].ID != "after c" {
		t.Errorf("got %+v by %q, %v; want %q", all, requests, err, want)
	}
}

func TestPagesThatDoNotEndAreAnError(t *testing.T) {
	_, requests, err := pages(t, map[string]string{"": `<?marker=a>; rel="next"`, "a": `<?marker=a>; rel="next"`})
	var unexpected *client.UnexpectedAnswer
	if !errors.As(err, &unexpected) || len(requests) != 2 {
		t.Errorf("%v after %q", err, requests)
	}
}
