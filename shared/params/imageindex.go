package params

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/distribution/reference"

	"github.com/nodehitch/nodehitch/shared/params/grammar"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// indexes are the two files that say which images an archive contains, and what they refer to.
type indexes struct {
	docker    []dockerEntry
	oci       ociIndex
	hasDocker bool
	hasOCI    bool
	contents  contents
}

// dockerEntry is an element of manifest.json (Docker Image Specification v1.2,
// "Combined Image JSON + Filesystem Changeset Format").
type dockerEntry struct {
	Config   string   `json:"Config"`
	RepoTags []string `json:"RepoTags"`
	Layers   []string `json:"Layers"`
}

// ociIndex is index.json (OCI Image Layout Specification).
type ociIndex struct {
	Manifests []ociDescriptor `json:"manifests"`
}

type ociDescriptor struct {
	Digest      string            `json:"digest"`
	Annotations map[string]string `json:"annotations"`
}

func readIndexes(archive *tar.Reader) (*indexes, error) {
	found := &indexes{contents: newContents()}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if found.contents.empty() && errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, tar.ErrHeader // shorter than one header
		}
		if err != nil {
			return nil, err
		}
		name := path.Clean(header.Name)
		switch name {
		case "manifest.json":
			found.hasDocker = true
			err = readIndex(archive, name, &found.docker)
		case "index.json":
			found.hasOCI = true
			err = readIndex(archive, name, &found.oci)
		default:
			err = found.contents.add(name, header.Size, archive)
		}
		if err != nil {
			return nil, err
		}
	}
}

func readIndex(content io.Reader, name string, v any) error {
	data, err := io.ReadAll(io.LimitReader(content, maxImageIndex+1))
	if err != nil {
		return err
	}
	if len(data) > maxImageIndex {
		return fmt.Errorf("has a %s larger than %d bytes", name, maxImageIndex)
	}
	if bytes.Count(data, []byte(",")) > jsontree.MaxValues {
		return fmt.Errorf("has a %s with more than %d values", name, jsontree.MaxValues)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("has a %s that cannot be read: %w", name, err)
	}
	return nil
}

func (i *indexes) image() (Image, error) {
	if !i.hasDocker && !i.hasOCI {
		return Image{}, errors.New("is a tar archive without manifest.json or index.json; expected the file that `docker save` writes")
	}
	image := Image{OnlyOCI: !i.hasDocker}
	var tags []string
	for _, one := range i.images() {
		tags = append(tags, one.tags...)
		references := one.references()
		if len(references) == 0 {
			continue
		}
		image.References = append(image.References, references...)
		architecture, missing := one.content(&i.contents)
		if missing != "" {
			return Image{}, fmt.Errorf("lacks %s, which is part of %s; save the image again", grammar.Show(missing), references[0])
		}
		if architecture != "" && !slices.Contains(image.Architectures, architecture) {
			image.Architectures = append(image.Architectures, architecture)
		}
	}
	if len(image.References) == 0 {
		return Image{}, fmt.Errorf("holds no image tagged registry (found: %s); `docker tag IMAGE registry:latest`, then save it by that name: `docker save registry:latest`", listed(tags))
	}
	return image, nil
}

// savedImage is an image of the archive: its names, and what says which files it needs.
type savedImage struct {
	tags    []string
	content func(*contents) (architecture, missing string)
}

// images are those in manifest.json, which `docker load` goes by, or else those in index.json.
func (i *indexes) images() []savedImage {
	if i.hasDocker {
		return i.ofDocker()
	}
	return i.ofOCI()
}

func (i *indexes) ofDocker() (images []savedImage) {
	for _, entry := range i.docker {
		images = append(images, savedImage{tags: entry.RepoTags, content: entry.content})
	}
	return images
}

func (i *indexes) ofOCI() (images []savedImage) {
	for _, m := range i.oci.Manifests {
		one := savedImage{content: m.content}
		for _, key := range []string{"io.containerd.image.name", "org.opencontainers.image.ref.name"} {
			if name := m.Annotations[key]; name != "" {
				one.tags = []string{name}
				break
			}
		}
		images = append(images, one)
	}
	return images
}

// references are the tags of the repository registry.
func (s savedImage) references() []string {
	var references []string
	for _, tag := range s.tags {
		named, _ := reference.ParseNormalizedNamed(tag) // nil for what is no name
		if tagged, ok := named.(reference.Tagged); ok && reference.FamiliarName(named) == "registry" {
			references = append(references, "registry:"+tagged.Tag())
		}
	}
	return references
}
