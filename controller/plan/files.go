package plan

import (
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
}

// file is the package file that a section names. Where it cannot be named the
// section is withheld, and the result nil.
func (n *Node) file(in Input, section, path string) *api.FileReference {
	f, ok := in.Files[path]
	switch {
	case !ok:
		n.withhold(section, api.ReasonFileMissing, fmt.Sprintf("the package file %s has not been uploaded", path))
		return nil
	case f.Problem != "":
		n.withhold(section, api.ReasonFileMissing, "the package file "+f.Problem)
		return nil
	}
	return &api.FileReference{Sha256: f.SHA256, SizeBytes: f.SizeBytes}
}
