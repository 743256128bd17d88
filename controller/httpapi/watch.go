package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// watched is a list with its version.
type watched[T any] struct {
	value     T
	etag      string
	unchanged bool
}

// watch reads a list, and what of it decides whether it is another list. With wait
// and an ETag it does so until the list has another ETag than the caller knows, at
// most for so long.
func watch[T any](ctx context.Context, s *Handler, key string, wait, known *string, read func() (list T, content any, err error)) (watched[T], error) {
	var out watched[T]
	longest, err := waitOf(wait)
	if err != nil {
		return out, err
	}
	if known == nil {
		longest = 0
	}
	err = s.hold(ctx, key, longest, s.inTurn(ctx, func() (bool, error) {
		var content any
		var err error
		if out.value, content, err = read(); err != nil {
			return false, err
		}
		if out.etag, err = etagOf(content); err != nil {
			return false, err
		}
		if out.unchanged = known != nil && matches(*known, out.etag); out.unchanged {
			var none T
			out.value = none // it is not kept while it is waited for
		}
		return !out.unchanged, nil
	}))
	return out, err
}

// etagOf names the content of an answer: a list, or one object.
func etagOf(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("making an ETag: %w", err)
	}
	sum := sha256.Sum256(text)
	return `"` + hex.EncodeToString(sum[:16]) + `"`, nil
}

// matches reports whether If-None-Match (RFC 9110, section 13.1.2) names the ETag;
// comparison is weak there.
func matches(header, etag string) bool {
	return matchesStrongly(strings.ReplaceAll(header, "W/", ""), etag)
}

// matchesStrongly reports whether If-Match (section 13.1.1) names the ETag; a weak one never
// does there.
func matchesStrongly(header, etag string) bool {
	for candidate := range strings.SplitSeq(header, ",") {
		if candidate = strings.TrimSpace(candidate); candidate == etag || candidate == "*" {
			return true
		}
	}
	return false
}

// canonical is the form in which ids are kept: the schema takes UUIDs in upper
// case too, OpenStack only ever makes lower case.
func canonical(id string) string { return strings.ToLower(id) }
