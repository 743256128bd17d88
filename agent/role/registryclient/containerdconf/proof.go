package containerdconf

import "reflect"

// proved says that after differs from before in nothing but that config_path, by its
// path, is now that directory; "" is also of one that is not there. Tables on the way
// to it may come and go if they are empty.
func proved(before, after []byte, path []string, directory string) bool {
	old, err := decode(before)
	if err != nil {
		return false
	}
	changed, err := decode(after)
	if err != nil {
		return false
	}
	take(old, path)
	if got, _ := take(changed, path).(string); got != directory {
		return false
	}
	return reflect.DeepEqual(old, changed)
}

// take removes the value at the path, and the tables on the way that are empty then,
// and returns it.
func take(root map[string]any, path []string) any {
	value := root[path[0]]
	if len(path) == 1 {
		delete(root, path[0])
		return value
	}
	below, ok := value.(map[string]any)
	if !ok {
		return nil
	}
	taken := take(below, path[1:])
	if len(below) == 0 {
		delete(root, path[0])
	}
	return taken
}
