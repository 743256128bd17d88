package store

import "slices"

// Blobs are the SHA-256s of all content that must not be lost, ordered, each once:
// what the package files are and were, and what the documents of nodes name that may
// still read it.
func (t *Tx) Blobs() ([]string, error) {
	files, err := t.Files().All()
	if err != nil {
		return nil, err
	}
	nodes, err := t.Nodes().All()
	if err != nil {
		return nil, err
	}
	var list []string
	for _, f := range files {
		list = append(list, f.SHA256)
		if f.Previous != nil {
			list = append(list, f.Previous.SHA256)
		}
	}
	for _, n := range nodes {
		if n.Expected || n.Identity.Live() {
			list = append(list, n.Files...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}
