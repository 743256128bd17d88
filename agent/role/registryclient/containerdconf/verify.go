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

// Sets reports whether the only difference between two dumps is that containerd now looks
// for hosts.toml in that directory alone.
func Sets(before, after []byte, directory string) bool {
	old, err := decode(before)
	if err != nil {
		return false
	}
	changed, err := decode(after)
	if err != nil {
		return false
	}
	plugins, _ := changed["plugins"].(map[string]any)
	path := []string{"plugins", dumpedPlugin(plugins), "registry", key}
	for _, dump := range []map[string]any{old, changed} {
		delete(dump, "imports") // names the file that was dumped
	}
	removeAt(old, path)
	got, _ := removeAt(changed, path).(string)
	return got == directory && reflect.DeepEqual(old, changed)
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
