package lcm

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// same says whether two records would be stored alike.
func same(a, b any) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(x, y)
}

// sameJSON says whether two texts mean the same, whatever their spacing and the
// order of their members.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, okA := meaning(a)
	y, okB := meaning(b)
	return okA && okB && reflect.DeepEqual(x, y)
}

func meaning(text []byte) (any, bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // 1 and 1.0 may differ to who reads them later
	var v any
	err := d.Decode(&v)
	return v, err == nil
}
