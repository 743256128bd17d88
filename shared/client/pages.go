package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	query := url.Values{"limit": {strconv.Itoa(pageItems)}}
	resp, err := list(withQuery(query)) //nolint:bodyclose // readOn closes it
	return readOn[T](resp, err, query, list)
}

// Whole is the answer that the first page of a list is, with the items of all pages. It is for who
// watches: the ETag of the first page is that of the whole list. Any other answer stays as it is.
func Whole(resp *http.Response, err error, list func(page RequestEditorFn) (*http.Response, error)) (*http.Response, error) {
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Link") == "" {
		return resp, err
	}
	items, err := readOn[json.RawMessage](resp, nil, url.Values{}, list)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string]any{"items": items})
	if err != nil {
		return nil, fmt.Errorf("joining the pages of a list: %w", err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// readOn reads a list from this page on.
func readOn[T any](resp *http.Response, err error, query url.Values, list func(page RequestEditorFn) (*http.Response, error)) (all []T, _ error) {
	for {
		var answer *struct{ Items []T }
		if answer, err = Read[struct{ Items []T }](resp, err); err != nil {
			return nil, err
		}
		all = append(all, answer.Items...)
		if query, err = nextPage(resp, query); err != nil || query == nil {
			return all, err
		}
		resp, err = list(withQuery(query)) //nolint:bodyclose // Read closes it
	}
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
		unexpected.Err = fmt.Errorf("has a header Link that cannot be followed (%w)", err)
		return nil, unexpected
	}
	return next.Query(), nil
}
