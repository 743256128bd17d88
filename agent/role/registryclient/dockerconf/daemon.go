package dockerconf

import (
	"fmt"
	"slices"

	"github.com/tailscale/hujson"
)

const insecureKey = "insecure-registries"

// Insecure returns the entries of insecure-registries in the content of daemon.json, in
// order. Empty content is a file without settings. An error describes what Docker would
// refuse, and names the line.
func Insecure(content []byte) ([]string, error) {
	d, err := parse(content)
	if err != nil {
		return nil, err
	}
	_, entries, err := d.insecure()
	return entries, err
}

// AddInsecure returns the content of daemon.json with these servers (host or host:port) in
// insecure-registries, after the entries that exist. Content that has them all is returned
// unchanged.
func AddInsecure(content []byte, servers ...string) ([]byte, error) {
	if err := checkServers(servers...); err != nil {
		return nil, err
	}
	d, err := parse(content)
	if err != nil {
		return nil, err
	}
	array, entries, err := d.insecure()
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, s := range servers {
		if !slices.ContainsFunc(entries, names(s)) && !slices.Contains(missing, s) {
			missing = append(missing, s)
		}
	}
	if len(missing) == 0 {
		return content, nil
	}
	if array == nil {
		array = &hujson.Array{}
		d.set(d.settings, insecureKey, func(hujson.Extra) hujson.ValueTrimmed { return array })
	}
	for _, s := range missing {
		before := lead(d, array.Elements, ofElement, array.AfterExtra)
		array.Elements = append(array.Elements, hujson.Value{BeforeExtra: before, Value: hujson.String(s)})
	}
	return d.root.Pack(), nil
}

// RemoveInsecure returns the content of daemon.json without these servers in
// insecure-registries. When the last entry is removed, the key stays with an empty list:
// the engine's reload applies the list only if the key is in the file. DropInsecure removes
// the key after the reload.
func RemoveInsecure(content []byte, servers ...string) ([]byte, error) {
	d, err := parse(content)
	if err != nil {
		return nil, err
	}
	array, entries, err := d.insecure()
	if err != nil {
		return nil, err
	}
	gone := func(entry string) bool {
		return slices.ContainsFunc(servers, func(s string) bool { return names(s)(entry) })
	}
	if !slices.ContainsFunc(entries, gone) {
		return content, nil
	}
	array.Elements = without(array.Elements, ofElement, func(e hujson.Value) bool { return gone(e.Value.(hujson.Literal).String()) })
	return d.root.Pack(), nil
}

// DropInsecure returns the content of daemon.json without insecure-registries if that list
// is empty, and nil if no setting is left in the file. When Docker starts, an empty list is
// the same as no list, and a file without settings the same as no file. The caller removes
// a file that the agent created, and writes {} to any other.
func DropInsecure(content []byte) ([]byte, error) {
	d, err := parse(content)
	if err != nil {
		return nil, err
	}
	_, entries, err := d.insecure()
	if err != nil {
		return nil, err
	}
	if len(entries) > 0 {
		return content, nil
	}
	return d.drop(d.settings, insecureKey), nil
}

// insecure returns the list of insecure-registries and its entries, nil if there is none.
func (d *document) insecure() (*hujson.Array, []string, error) {
	v, err := d.member(d.settings, insecureKey)
	if err != nil || v == nil || v.Value.Kind() == 'n' {
		return nil, nil, err
	}
	array, ok := v.Value.(*hujson.Array)
	if !ok {
		return nil, nil, d.wrong(v, insecureKey, `a list of strings, ["host:port"]`)
	}
	var entries []string
	for i := range array.Elements {
		e := &array.Elements[i]
		if e.Value.Kind() != '"' {
			return nil, nil, d.wrong(e, fmt.Sprintf("%s[%d]", insecureKey, i), `a string, "host:port"`)
		}
		entries = append(entries, e.Value.(hujson.Literal).String())
	}
	return array, entries, nil
}
