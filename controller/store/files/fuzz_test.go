package files

import (
	"strconv"
	"strings"
	"testing"
)

// FuzzParseRange asserts that a range that is taken lies within its file, and
// that it is the one that its header names.
func FuzzParseRange(f *testing.F) {
	for _, header := range []string{"", "bytes 0-99/200", "bytes */200", "bytes 5-4/9", "bytes 0-0/99999999999999999999", "bytes=0-1"} {
		f.Add(header, int64(100))
	}
	f.Fuzz(func(t *testing.T, header string, length int64) {
		r, err := ParseRange(header, max(length, -1))
		switch {
		case err != nil || header == "":
		case r.Query:
			if total, err := strconv.ParseInt(strings.TrimPrefix(header, "bytes */"), 10, 64); err != nil || r.Total != total {
				t.Errorf("%q is %+v", header, r)
			}
		case r.First < 0 || r.Last < r.First || r.Last >= r.Total || length >= 0 && r.Length() != length:
			t.Errorf("%q is %+v", header, r)
		}
	})
}
