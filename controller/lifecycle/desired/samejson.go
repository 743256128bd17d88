package desired

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// SameJSON reports whether two texts mean the same, whatever their spacing and the order
// of their members.
func SameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, okA := meaning(a)
	y, okB := meaning(b)
	return okA && okB && reflect.DeepEqual(x, y)
}

func meaning(text []byte) (any, bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // 1 and 1.0 may differ to a later reader
	var v any
	err := d.Decode(&v)
	return v, err == nil
}
