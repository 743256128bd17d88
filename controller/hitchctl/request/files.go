package request

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

// maxManifest is what is kept in memory of a manifest; a larger one is a fault.
const maxManifest = 1 << 20

// File is a file of the package that the parameters name.
type File struct {
	Path      string       `json:"path"`
	Uses      []params.Use `json:"uses"`
	SizeBytes int64        `json:"sizeBytes"`
	// SHA256 is lower-case hexadecimal.
	SHA256 string `json:"sha256"`
}

// CheckFiles checks every file that the parameters name in the package, for each
// use that they make of it, and says what files these are. The error is of
// reading, never about content. now decides which certificates have expired.
func (r *Request) CheckFiles(p *Package, now time.Time) ([]File, error) {
	uses := params.Files(r.Params, fault.Root.Key("additionalParams"))
	var files []File
	var manifests []params.Manifest
	var held []params.Held
	at := map[string]int{}
	for _, use := range uses {
		file, content, holds, err := r.checkFile(p, use, now)
		if err != nil {
			return nil, err
		}
		if file == nil {
			continue
		}
		if use.Use == params.UseManifest {
			manifests = append(manifests, params.ManifestOf(use, content))
		}
		held = append(held, params.Held{Use: use, Holds: holds})
		if i, again := at[use.Path]; again {
			files[i].Uses = append(files[i].Uses, use.Use)
			continue
		}
		at[use.Path] = len(files)
		files = append(files, *file)
	}
	r.take(r.name, params.CheckManifests(manifests))
	r.take(r.name, params.CheckArchives(r.Params, fault.Root.Key("additionalParams"), held))
	return files, nil
}

// checkFile checks one use. The file is nil if the package does not have it;
// the content is a manifest's, and holds is an archive's.
func (r *Request) checkFile(p *Package, use params.FileUse, now time.Time) (file *File, manifest []byte, holds []string, err error) {
	content, size, err := p.Content(use.Path)
	if errors.Is(err, fs.ErrNotExist) {
		r.refuse(r.name, fault.List{{Pointer: use.Pointer, Message: fmt.Sprintf(
			"%s is not in the package %s; put it there, or correct the path", use.Path, p.Name)}})
		return nil, nil, nil, nil
	}
	if err != nil {
		r.refuse(r.name, fault.List{{Pointer: use.Pointer, Message: fmt.Sprintf(
			"%s cannot be read in the package %s: %v", use.Path, p.Name, err)}})
		return nil, nil, nil, nil
	}
	defer content.Close()
	var kept bytes.Buffer
	digest := sha256.New()
	seen := io.TeeReader(content, digest)
	if use.Use == params.UseManifest && size <= maxManifest {
		seen = io.TeeReader(seen, &kept)
	}
	report, err := params.CheckFile(use, seen, r.Params, now)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("checking the package: %w", err)
	}
	r.take(r.name, report)
	return &File{
		Path: use.Path, Uses: []params.Use{use.Use}, SizeBytes: size, SHA256: hex.EncodeToString(digest.Sum(nil)),
	}, kept.Bytes(), report.Holds, nil
}
