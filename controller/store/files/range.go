package files

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/nodehitch/nodehitch/shared/api"
)

// Range is the part of a file that one request carries.
type Range struct {
	// First is the position of the first byte, Last that of the last; Last is -1
	// where the length is not known before the end.
	First, Last int64
	// Total is the size of the whole file, -1 if it is not known.
	Total int64
	// Query asks how much has arrived and carries nothing.
	Query bool
}

// Length is how many bytes the request carries, -1 if that is not known.
func (r Range) Length() int64 {
	if r.Last < 0 {
		return r.Total
	}
	return r.Last - r.First + 1
}

var contentRange = regexp.MustCompile(`^bytes (?:(\d+)-(\d+)|\*)/(\d+)$`)

// ParseRange reads a Content-Range header (RFC 9110, section 14.4): "bytes
// 0-99/200", or "bytes */200" to ask how much has arrived. Without the header the
// request carries the whole, contentLength bytes long (-1: not known).
func ParseRange(header string, contentLength int64) (Range, error) {
	if header == "" {
		return Range{First: 0, Last: contentLength - 1, Total: contentLength}, nil
	}
	m := contentRange.FindStringSubmatch(header)
	if m == nil {
		return Range{}, invalidRange("expected \"bytes <first>-<last>/<total>\", or \"bytes */<total>\" to ask how much has arrived")
	}
	if m[1] == "" {
		total, err := strconv.ParseInt(m[3], 10, 64)
		if err != nil {
			return Range{}, invalidRange("the total is too large")
		}
		return Range{Total: total, Query: true}, nil
	}
	var n [3]int64
	for i := range n {
		v, err := strconv.ParseInt(m[i+1], 10, 64)
		if err != nil {
			return Range{}, invalidRange("a position is too large")
		}
		n[i] = v
	}
	r := Range{First: n[0], Last: n[1], Total: n[2]}
	switch {
	case r.Last < r.First || r.Last >= r.Total:
		return Range{}, invalidRange(fmt.Sprintf("%d-%d is not within a file of %d bytes", r.First, r.Last, r.Total))
	case contentLength >= 0 && contentLength != r.Length():
		return Range{}, invalidRange(fmt.Sprintf("it announces %d bytes, but the body has %d", r.Length(), contentLength))
	}
	return r, nil
}

func invalidRange(what string) error {
	return api.NewProblem(api.ProblemInvalid, "the header Content-Range is not valid: "+what)
}
