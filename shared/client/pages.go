package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// pageItems is how many items All asks for at a time.
const pageItems = 500

// All reads a list to its end, page by page (Link of RFC 8288):
//
//	nodes, err := client.All[api.Node](func(page client.RequestEditorFn) (*http.Response, error) {
//		return c.ListNodes(ctx, nil, page)
//	})
//
// What changes in between may be missing, and nothing else. Errors are those of Read.
func All[T any](list func(page RequestEditorFn) (*http.Response, error)) ([]T, error) {
	var all []T
	query := url.Values{"limit": {strconv.Itoa(pageItems)}}
	for query != nil {
		resp, err := list(withQuery(query)) //nolint:bodyclose // Read closes it
		answer, err := Read[struct{ Items []T }](resp, err)
		if err != nil {
			return nil, err
		}
		all = append(all, answer.Items...)
		if query, err = nextPage(resp, query); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// withQuery sets query parameters of a request.
func withQuery(query url.Values) RequestEditorFn {
	return func(_ context.Context, r *http.Request) error {
		all := r.URL.Query()
		for name, values := range query {
			all[name] = values
		}
		r.URL.RawQuery = all.Encode()
		return nil
	}
}

var nextLink = regexp.MustCompile(`<([^>]*)>\s*;\s*rel="?next"?`)

// nextPage is the query of the next page, nil after the last one. The rest of the link does
// not matter: the token goes to the path that was called before, and nowhere else.
func nextPage(resp *http.Response, this url.Values) (url.Values, error) {
	link := nextLink.FindStringSubmatch(strings.Join(resp.Header.Values("Link"), ", "))
	if link == nil {
		return nil, nil
	}
	next, err := url.Parse(link[1])
	if err == nil && next.Query().Get("marker") == this.Get("marker") {
		err = errors.New("the next page is this one")
	}
	if err != nil {
		unexpected := describe(resp)
		unexpected.Err = fmt.Errorf("reading the header Link: %w", err)
		return nil, unexpected
	}
	return next.Query(), nil
}
