package httpapi

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"sort"

	wire "github.com/nodehitch/nodehitch/shared/api"
)

// defaultLimit is how many items of a list an answer has at most if the request does not say.
const defaultLimit = 1000

// asked is what each list can be asked for.
type asked struct {
	limit       *wire.Limit
	marker      *wire.Marker
	wait, known *string
}

// page is a part of a list: the Link header of its answer is nil for the last one.
type page[T any] struct {
	items []T
	next  *string
}

// list is the page that a request asks for, of a list that read gives in the order of key. With wait
// and an ETag it is held until there is another one: that of the first page is the whole list's, so
// that one wait is for all pages. quiet is an item without what makes no other list, nil if
// all of it does.
func list[T any](ctx context.Context, s *Handler, topic string, a asked, key func(T) string, quiet func(T) T, read func() ([]T, error)) (watched[page[T]], error) {
	got, err := watch(ctx, s, topic, a.wait, a.known, func() (p page[T], content any, err error) {
		all, err := read()
		if err != nil {
			return p, nil, err
		}
		if p, err = pageOf(ctx, all, a, key); err != nil {
			return p, nil, err
		}
		if a.marker != nil {
			all = p.items
		}
		return p, []any{quieted(all, quiet), p.next}, nil
	})
	if quiet != nil {
		got.etag = "W/" + got.etag
	}
	return got, err
}

func quieted[T any](items []T, quiet func(T) T) []T {
	if quiet == nil {
		return items
	}
	items = slices.Clone(items)
	for i := range items {
		items[i] = quiet(items[i])
	}
	return items
}

// pageOf is the part of the items that is asked for, which are never nil. It begins behind the last
// item of the page before, also if that is no longer there.
func pageOf[T any](ctx context.Context, items []T, a asked, key func(T) string) (page[T], error) {
	if a.marker != nil {
		last, err := base64.RawURLEncoding.DecodeString(*a.marker)
		if err != nil {
			return page[T]{}, wire.NewProblem(wire.ProblemInvalid, "query parameter marker: is not from a Link header of this list; leave it out to begin with the first page")
		}
		items = items[sort.Search(len(items), func(i int) bool { return key(items[i]) > string(last) }):]
	}
	limit := defaultLimit
	if a.limit != nil {
		limit = *a.limit
	}
	if len(items) <= limit {
		return page[T]{items: append([]T{}, items...)}, nil
	}
	items = items[:limit]
	next := *callOf(ctx).request.URL
	query := next.Query()
	query.Del("wait")
	query.Set("marker", base64.RawURLEncoding.EncodeToString([]byte(key(items[len(items)-1]))))
	link := fmt.Sprintf(`<%s?%s>; rel="next"`, next.EscapedPath(), query.Encode())
	return page[T]{items, &link}, nil
}

// other reports whether a filter is given and asks for another value.
func other[T comparable](wanted *T, found T) bool { return wanted != nil && *wanted != found }

// The orders of the lists.

func instanceKey(i wire.Instance) string { return i.ID }

func nodeKey(n wire.Node) string { return n.VnfInstanceID + " " + string(n.Role) + " " + n.ID }

// operationKey has the newest first.
func operationKey(o wire.Operation) string {
	return fmt.Sprintf("%019d %s %019d", math.MaxInt64-o.StartedAt.UnixNano(), o.VnfInstanceID, math.MaxInt64-o.Sequence)
}

func volumeKey(v wire.Volume) string { return v.ID }

func replicaKey(r wire.Replica) string { return r.ID }

func tokenKey(t wire.Token) string {
	return fmt.Sprintf("%s %019d %s", t.Name, t.CreatedAt.UnixNano(), t.ID)
}
