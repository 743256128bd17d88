// Package sourcetree finds files of this source tree.
package sourcetree

import (
	"os"
	"path/filepath"
)

// Path is a file or folder of the tree by its path from the root, which is the nearest folder
// with a go.mod above the working directory. A binary does not know where it was built: make
// builds all with -trimpath.
func Path(fromRoot string) string {
	dir, err := os.Getwd()
	if err != nil {
		return fromRoot
	}
	for root := dir; ; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			return filepath.Join(root, fromRoot)
		}
		if root == filepath.Dir(root) {
			return fromRoot
		}
	}
}
