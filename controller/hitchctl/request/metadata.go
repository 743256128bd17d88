package request

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/hitchctl/csar"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// maxMeta is far more than TOSCA.meta needs for as many files as a package may have.
const maxMeta = 8 << 20

// algorithms are those that Tacker knows. It does not look at their case.
var algorithms = map[string]func() hash.Hash{
	"sha-224": sha256.New224, "sha-256": sha256.New, "sha-384": sha512.New384, "sha-512": sha512.New,
}

// CheckDefinitions checks the parts of a VNF package that only Tacker reads: TOSCA.meta with
// its hashes, and the VNFD, whose names have to be those of the Heat templates. A directory
// without TOSCA.meta and Definitions has only the files that the request names, and nothing
// is said of it. CheckTemplates has to come first. The error is of reading, never about content.
func (r *Request) CheckDefinitions(p *Package) error {
	text, err := metadata(p)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := fs.Stat(p, "Definitions"); err == nil {
			r.refuse(csar.MetaFile, asList(nil, "is not in the package, and Tacker finds the VNFD by it; `hitchctl package build` writes one"))
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", csar.MetaFile, err)
	}
	meta, faults := csar.ParseMeta(text)
	r.refuse(csar.MetaFile, faults)
	for _, name := range []string{"TOSCA-Meta-File-Version", "CSAR-Version", "Entry-Definitions"} {
		if meta.Head[name] == "" {
			r.refuse(csar.MetaFile, asList(nil, "its first block has no "+name))
		}
	}
	if err := r.checkHashes(p, meta.Files); err != nil {
		return err
	}
	if entry := meta.Head["Entry-Definitions"]; entry != "" {
		return r.checkVNFD(p, entry)
	}
	return nil
}

func metadata(p *Package) ([]byte, error) {
	content, size, err := p.Content(csar.MetaFile)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	if size > maxMeta {
		return nil, fmt.Errorf("it has %d bytes; expected at most %d", size, maxMeta)
	}
	return io.ReadAll(io.LimitReader(content, maxMeta))
}

// checkHashes compares the files with what TOSCA.meta says of them.
func (r *Request) checkHashes(p *Package, blocks []csar.Block) error {
	listed := map[string]bool{csar.MetaFile: true}
	for i, block := range blocks {
		name := block["Name"]
		if name == "" {
			name = block["Source"]
		}
		var why string
		switch {
		case name == "":
			why = fmt.Sprintf("block %d of the files has no Name", i+1)
		case listed[name]:
			why = name + " is in it twice"
		case strings.Contains(name, "://"): // it is not in the package
		default:
			var err error
			if why, err = wrongHash(p, name, block); err != nil {
				return err
			}
		}
		listed[name] = true
		if why != "" {
			r.refuse(csar.MetaFile, asList(nil, why))
		}
	}
	return r.warnOfUnlisted(p, listed)
}

// wrongHash says what is wrong with the block of a file, "" for nothing.
func wrongHash(p *Package, name string, block csar.Block) (string, error) {
	content, _, err := p.Content(name)
	if errors.Is(err, fs.ErrNotExist) {
		return name + " is in it, and not in the package; put it there, or build the package again", nil
	}
	if err != nil {
		return fmt.Sprintf("%s cannot be read in the package: %v", name, err), nil
	}
	defer content.Close()
	given, algorithm := block["Hash"], block["Algorithm"]
	if given == "" && algorithm == "" {
		return "", nil
	}
	begin := algorithms[strings.ToLower(algorithm)]
	switch {
	case given == "" || algorithm == "":
		return name + " has one of Algorithm and Hash alone; Tacker takes both or none", nil
	case begin == nil:
		return fmt.Sprintf("%s has the Algorithm %q; expected one of %s", name, algorithm,
			strings.ToUpper(strings.Join(slices.Sorted(maps.Keys(algorithms)), ", "))), nil
	}
	sum := begin()
	if _, err := io.Copy(sum, content); err != nil {
		return "", fmt.Errorf("reading %s of the package: %w", name, err)
	}
	if found := sum.Sum(nil); hex.EncodeToString(found) != given {
		if decoded, err := hex.DecodeString(given); err == nil && bytes.Equal(decoded, found) {
			return name + " has a Hash with capital letters, which Tacker does not take for the same", nil
		}
		return fmt.Sprintf("%s has another content than its Hash says: it is %x; build the package again", name, found), nil
	}
	return "", nil
}

// shownUnlisted is how many files a warning names.
const shownUnlisted = 3

// warnOfUnlisted warns of files whose content nothing vouches for.
func (r *Request) warnOfUnlisted(p *Package, listed map[string]bool) error {
	var names []string
	err := fs.WalkDir(p, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !listed[name] {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("reading the package: %w", err)
	}
	if n := len(names); n > 0 {
		text := strings.Join(names[:min(n, shownUnlisted)], ", ")
		if n > shownUnlisted {
			text += fmt.Sprintf(" and %d more", n-shownUnlisted)
		}
		r.warn(csar.MetaFile, fault.List{fault.Root.Fault("has no hash of " + text)})
	}
	return nil
}
