package httpapi

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"sort"

	wire "github.com/nodehitch/nodehitch/shared/api"
)

// page is the part of a list that a request asks for, never nil, and the Link header of its
// answer, nil for the last page. The list is ordered by the keys of its items: a page begins
// behind the last item of the page before, also if that is no longer there.
func page[T any](ctx context.Context, items []T, limit *wire.Limit, marker *wire.Marker, key func(T) string) ([]T, *string, error) {
	if marker != nil {
		last, err := base64.RawURLEncoding.DecodeString(*marker)
		if err != nil {
			return nil, nil, wire.NewProblem(wire.ProblemInvalid, "query parameter marker: is not from a Link header of this list; leave it out to begin with the first page")
		}
		items = items[sort.Search(len(items), func(i int) bool { return key(items[i]) > string(last) }):]
	}
	if limit == nil || len(items) <= *limit {
		return append([]T{}, items...), nil, nil
	}
	items = items[:*limit]
	next := *callOf(ctx).request.URL
	query := next.Query()
	query.Del("wait")
	query.Set("marker", base64.RawURLEncoding.EncodeToString([]byte(key(items[len(items)-1]))))
	link := fmt.Sprintf(`<%s?%s>; rel="next"`, next.EscapedPath(), query.Encode())
	return items, &link, nil
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
