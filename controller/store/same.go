package store

import (
	"bytes"
	"encoding/json"
)

// Same says whether two records would be stored alike.
func Same(a, b any) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(x, y)
}
