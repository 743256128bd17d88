package params

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/distribution/reference"
)

// indexes are the two files that say which images an archive holds.
type indexes struct {
	docker    []dockerEntry
	oci       ociIndex
	hasDocker bool
	hasOCI    bool
	any       bool // the archive has an entry at all
}

// dockerEntry is an element of manifest.json (Docker Image Specification v1.2,
// "Combined Image JSON + Filesystem Changeset Format").
type dockerEntry struct {
	RepoTags []string `json:"RepoTags"`
}

// ociIndex is index.json (OCI Image Layout Specification).
type ociIndex struct {
	Manifests []struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"manifests"`
}

func readIndexes(archive *tar.Reader) (*indexes, error) {
	found := &indexes{}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if !found.any && errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, tar.ErrHeader // shorter than one header
		}
		if err != nil {
			return nil, err
		}
		found.any = true
		switch name := path.Clean(header.Name); name {
		case "manifest.json":
			found.hasDocker = true
			err = readIndex(archive, name, &found.docker)
		case "index.json":
			found.hasOCI = true
			err = readIndex(archive, name, &found.oci)
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
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("has a %s that cannot be read: %w", name, err)
	}
	return nil
}

func (i *indexes) image() (Image, error) {
	if !i.hasDocker && !i.hasOCI {
		return Image{}, errors.New("is a tar archive without manifest.json or index.json; expected the file that `docker save` writes")
	}
	tags := i.tags()
	image := Image{OnlyOCI: !i.hasDocker}
	for _, tag := range tags {
		named, _ := reference.ParseNormalizedNamed(tag) // nil for what is no name
		if tagged, ok := named.(reference.Tagged); ok && reference.FamiliarName(named) == "registry" {
			image.References = append(image.References, "registry:"+tagged.Tag())
		}
	}
	if len(image.References) == 0 {
		return Image{}, fmt.Errorf("holds no image tagged registry (found: %s); `docker tag IMAGE registry:latest`, then save it by that name: `docker save registry:latest`", listed(tags))
	}
	return image, nil
}

// tags are the names in manifest.json, which `docker load` goes by, or else those in index.json.
func (i *indexes) tags() []string {
	var tags []string
	for _, entry := range i.docker {
		tags = append(tags, entry.RepoTags...)
	}
	if i.hasDocker {
		return tags
	}
	for _, m := range i.oci.Manifests {
		for _, key := range []string{"io.containerd.image.name", "org.opencontainers.image.ref.name"} {
			if name := m.Annotations[key]; name != "" {
				tags = append(tags, name)
				break
			}
		}
	}
	return tags
}
