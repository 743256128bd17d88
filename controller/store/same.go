package store

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// Same reports whether two records would be stored alike.
func Same(a, b any) bool {
	if reflect.DeepEqual(a, b) { // most often so, and cheaper
		return true
	}
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(x, y)
}
