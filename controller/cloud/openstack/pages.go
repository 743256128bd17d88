package openstack

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// maxPages is how many pages of a list are read at most. Services have a thousand
// things on one.
const maxPages = 200

// list is every element of a list, one call for each page. name is the member of the
// answer that contains it. Only the query of the link to the next page is used: the address in
// it is often that of a proxy, which must not get the token.
func list[T any](ctx context.Context, c *Cloud, r request, name string) ([]T, error) {
	var all []T
	r.method, r.ok = http.MethodGet, []int{http.StatusOK}
	for range maxPages {
		var page map[string]json.RawMessage
		r.into = &page
		if err := c.do(ctx, r); err != nil {
			return nil, err
		}
		var items []T
		var links []link
		if json.Unmarshal(page[name], &items) != nil || page[name+"_links"] != nil && json.Unmarshal(page[name+"_links"], &links) != nil {
			return nil, c.wrap(c.calledAs(r), said(notThisService))
		}
		all = append(all, items...)
		next, err := following(links)
		if err != nil {
			return nil, c.wrap(c.calledAs(r), said(notThisService))
		}
		if next == nil || len(items) == 0 {
			return all, nil
		}
		r.query = next
	}
	return nil, c.wrap(c.calledAs(r), said("the list does not end"))
}

type link struct{ Href, Rel string }

// following is the query of the next page, nil if there is none.
func following(links []link) (url.Values, error) {
	for _, l := range links {
		if l.Rel == "next" {
			u, err := url.Parse(l.Href)
			if err != nil {
				return nil, err
			}
			return u.Query(), nil
		}
	}
	return nil, nil
}
