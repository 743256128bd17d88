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

// Who watches has the first page with its ETag, and the rest without waiting.
func TestAWatchHasAllPages(t *testing.T) {
	var requests []string
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.URL.RawQuery+r.Header.Get("If-None-Match"))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, len(requests)))
		if len(requests) == 1 {
			w.Header().Set("Link", `</v1/tokens?marker=a>; rel="next"`)
		}
		fmt.Fprintf(w, `{"items": [{"id": "%d"}]}`, len(requests))
	}, nil)
	c := dial(t, server.options())
	wait, known := "30", `"0"`
	resp, err := c.ListTokens(t.Context(), &api.ListTokensParams{Wait: &wait, IfNoneMatch: &known}) //nolint:bodyclose // Read closes it
	resp, err = client.Whole(resp, err, func(page client.RequestEditorFn) (*http.Response, error) { return c.ListTokens(t.Context(), nil, page) })
	list, err := client.Read[api.TokenList](resp, err)
	if err != nil || len(list.Items) != 2 || list.Items[1].ID != "2" || resp.Header.Get("ETag") != `"1"` || !slices.Equal(requests, []string{`wait=30"0"`, "marker=a"}) {
		t.Errorf("got %+v with %v by %q, %v", list, resp.Header, requests, err)
	}
}

func TestAPageThatIsNotAnsweredIsAnError(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Link", `</v1/tokens?marker=a>; rel="next"`)
		_, _ = w.Write([]byte(`{"items": []}`))
	}, nil)
	c := dial(t, server.options())
	gone := errors.New("gone")
	calls := 0
	_, err := client.All[api.Token](func(page client.RequestEditorFn) (*http.Response, error) {
		if calls++; calls == 2 {
			return nil, gone
		}
		return c.ListTokens(t.Context(), nil, page)
	})
	if !errors.Is(err, gone) {
		t.Errorf("got %v, want %v", err, gone)
	}
}

func TestPagesThatDoNotEndAreAnError(t *testing.T) {
	_, requests, err := pages(t, map[string]string{"": `<?marker=a>; rel="next"`, "a": `<?marker=a>; rel="next"`})
	var unexpected *client.UnexpectedAnswer
	if !errors.As(err, &unexpected) || len(requests) != 2 {
		t.Errorf("%v after %q", err, requests)
	}
}
