package dockerconf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

const insecureKey = "insecure-registries"

// Insecure are the entries of insecure-registries in the content of daemon.json, in
// their order. Content without any character is a file without settings. An error is
// of what Docker would refuse, and names the line.
func Insecure(content []byte) ([]string, error) {
	d, err := parse(content)
	if err != nil {
		return nil, err
	}
	_, entries, err := d.insecure()
	return entries, err
}

// AddInsecure returns the content of daemon.json with these servers (host or
// host:port) in insecure-registries: what is there stays, and they come after it.
// Content that has them all is returned as it is.
func AddInsecure(content []byte, servers ...string) ([]byte, error) {
	if err := checked(servers...); err != nil {
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
	switch {
	case len(missing) == 0:
		return content, nil
	case array == nil || array.Value.Kind() == 'n':
		var texts []string
		for _, s := range missing {
			texts = append(texts, quoted(s))
		}
		return d.set(d.root, insecureKey, func(string) string { return "[" + strings.Join(texts, ", ") + "]" })
	}
	l := d.list(array)
	for _, s := range missing {
		l.items = append(l.items, item{before: d.lead(l), text: quoted(s)})
	}
	return d.with(l), nil
}

// RemoveInsecure returns the content of daemon.json without these servers in
// insecure-registries. When the last entry goes, the key stays with an empty list:
// the engine's reload takes the list over only where the key is in the file. After
// the reload DropInsecure removes it.
func RemoveInsecure(content []byte, servers ...string) ([]byte, error) {
	d, err := parse(content)
	if err != nil {
		return nil, err
	}
	array, entries, err := d.insecure()
	if err != nil {
		return nil, err
	}
	gone := func(i int) bool {
		return slices.ContainsFunc(servers, func(s string) bool { return names(s)(entries[i]) })
	}
	if !slices.ContainsFunc(indices(entries), gone) {
		return content, nil
	}
	return d.with(d.list(array).without(gone)), nil
}

// DropInsecure returns the content of daemon.json without insecure-registries where
// that list is empty, and nil where no setting is left in the file. To Docker, no list
// and an empty one are the same at its start, and so are no file and one without
// settings; whether the file is removed or written as {} depends on whose it is.
func DropInsecure(content []byte) ([]byte, error) {
	d, err := parse(content)
	if err != nil {
		return nil, err
	}
	array, entries, err := d.insecure()
	if err != nil {
		return nil, err
	}
	if array == nil || len(entries) > 0 {
		return d.orNil(content), nil
	}
	return d.drop(d.root, insecureKey)
}

// insecure is the value of insecure-registries and its entries, nil where there is none.
func (d *document) insecure() (*hujson.Value, []string, error) {
	v, err := d.member(d.root, insecureKey)
	if err != nil || v == nil || v.Value.Kind() == 'n' {
		return v, nil, err
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
	return v, entries, nil
}

func indices(entries []string) []int {
	all := make([]int, len(entries))
	for i := range all {
		all[i] = i
	}
	return all
}
