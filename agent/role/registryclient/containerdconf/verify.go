package containerdconf

import "reflect"

// onlySets reports whether the only difference of after is that config_path, at its path,
// is now that directory. Empty tables above it may appear or disappear.
func onlySets(before, after []byte, path []string, directory string) bool {
	old, err := decode(before)
	if err != nil {
		return false
	}
	changed, err := decode(after)
	if err != nil {
		return false
	}
	removeAt(old, path)
	if got, _ := removeAt(changed, path).(string); got != directory {
		return false
	}
	return reflect.DeepEqual(old, changed)
}

// removeAt removes the value at the path, and each table above it that is then empty. It
// returns the value.
func removeAt(root map[string]any, path []string) any {
	value := root[path[0]]
	if len(path) == 1 {
		delete(root, path[0])
		return value
	}
	below, ok := value.(map[string]any)
	if !ok {
		return nil
	}
	removed := removeAt(below, path[1:])
	if len(below) == 0 {
		delete(root, path[0])
	}
	return removed
}
