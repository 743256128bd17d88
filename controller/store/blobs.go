package store

import "slices"

// Blobs are the SHA-256s of all content that must not be lost, ordered, each once:
// what the package files are and were, and what the documents of nodes name that may
// still read it.
func (t *Tx) Blobs() ([]string, error) {
	var list []string
	err := t.Files().Each(func(f File) {
		list = append(list, f.SHA256)
		if f.Previous != nil {
			list = append(list, f.Previous.SHA256)
		}
	})
	if err != nil {
		return nil, err
	}
	err = t.Nodes().Each(func(n Node) {
		if n.Expected || n.Identity.Live() {
			list = append(list, n.Files...)
		}
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}
