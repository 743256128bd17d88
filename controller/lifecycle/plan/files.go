package plan

import (
	"encoding/json"
	"fmt"

	"github.com/nodehitch/nodehitch/shared/api"
)

// File is what the controller holds of a package file. Documents name the content
// and not the path, so that other content is another document.
type File struct {
	// SHA256 of the content, lower-case hexadecimal, and its length.
	SHA256    string
	SizeBytes int64
	// Problem says why no document may name the content, "" for none.
	Problem string
	// Manifests are the objects of a manifest, in its order.
	Manifests []Manifest
}

// Manifest is a PersistentVolume of a package file.
type Manifest struct {
	// Name is metadata.name.
	Name string
	// Object is the whole object as JSON, with spec.nfs.server as in the file.
	Object json.RawMessage
}

// file is the package file that a section names. If it cannot be named, the section is
// withheld, and the result is nil.
func (n *Node) file(in Input, section, path string) *api.FileReference {
	f, ok := n.usable(in, section, path)
	if !ok {
		return nil
	}
	return &api.FileReference{Sha256: f.SHA256, SizeBytes: f.SizeBytes}
}

// files are the package files that a section names, in their order. If one cannot be named, the
// section is withheld.
func (n *Node) files(in Input, section string, paths []string) (list []api.FileReference) {
	for _, path := range paths {
		if f := n.file(in, section, path); f != nil {
			list = append(list, *f)
		}
	}
	return list
}

// usable is the package file that a section is made of. If there is none, the section is
// withheld.
func (n *Node) usable(in Input, section, path string) (f File, ok bool) {
	f, ok = in.Files[path]
	switch {
	case !ok:
		n.withhold(section, api.ReasonFileMissing, fmt.Sprintf("the package file %s has not been uploaded", path))
	case f.Problem != "":
		n.withhold(section, api.ReasonFileMissing, "the package file "+f.Problem)
		ok = false
	}
	return f, ok
}
