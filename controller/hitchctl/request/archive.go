package request

import (
	"archive/zip"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// What a package may have. The largest parts are images of some gigabytes.
const (
	maxEntries       = 10_000
	maxBytes         = 64 << 30
	maxArchiveFaults = 20
)

// checkArchive refuses an archive that says anything but files and directories within itself:
// what Tacker unpacks, others must not reach through it. Each fault is an error of its own.
func checkArchive(r *zip.Reader) error {
	if len(r.File) > maxEntries {
		return fmt.Errorf("it has %d entries; expected at most %d", len(r.File), maxEntries)
	}
	var faults []error
	var bytes uint64
	files := map[string]bool{} // true: a file, false: a directory
	for _, f := range r.File {
		if bytes += min(f.UncompressedSize64, maxBytes+1); bytes > maxBytes {
			return fmt.Errorf("its files have more than %d GiB together", maxBytes>>30)
		}
		if why := wrongEntry(f, files); why != "" && len(faults) < maxArchiveFaults {
			faults = append(faults, fmt.Errorf("%.200q %s", f.Name, why))
		}
	}
	return errors.Join(faults...)
}

// wrongEntry says what is wrong with an entry, "" for nothing, and remembers in seen which names
// are files and which directories.
func wrongEntry(f *zip.File, seen map[string]bool) string {
	name := strings.TrimSuffix(f.Name, "/")
	isFile := name == f.Name
	wasFile, known := seen[name]
	seen[name] = isFile || wasFile
	switch mode := f.Mode(); {
	case !fs.ValidPath(name) || name == "." || strings.Contains(name, `\`):
		return "is no path within the package; expected names with / between them, and no .."
	case mode&fs.ModeSymlink != 0:
		return "is a symbolic link; expected the file itself"
	case isFile && !mode.IsRegular():
		return "is neither a file nor a directory"
	case known && (isFile || wasFile):
		return "is in it twice"
	case f.Flags&1 != 0:
		return "is encrypted"
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return fmt.Sprintf("is compressed by method %d; expected deflate", f.Method)
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if seen[dir] {
			return fmt.Sprintf("lies in %q, which is a file", dir)
		}
		seen[dir] = false
	}
	return ""
}
