package results

import "bytes"

// Differing is in how many bytes two contents differ, those that only one of them has
// too.
func Differing(a, b []byte) int64 {
	if bytes.Equal(a, b) {
		return 0
	}
	count := int64(max(len(a), len(b)) - min(len(a), len(b)))
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			count++
		}
	}
	return count
}
