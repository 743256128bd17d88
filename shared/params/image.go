package params

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

const (
	// maxImage bounds what a compressed image may unpack to; the registry's has
	// some 30 MB.
	maxImage = 8 << 30
	// maxImageIndex bounds manifest.json and index.json.
	maxImageIndex = 4 << 20
)

// Image is what an archive of container images says about the registry's.
type Image struct {
	// References are the tags of the repository registry, such as registry:latest,
	// in the order of the archive. There is at least one.
	References []string
	// OnlyOCI says that the archive is an OCI layout without Docker's manifest.json,
	// which only Docker with the containerd image store loads.
	OnlyOCI bool
}

// ReadImage reads an archive as `docker save` writes it (a tar, plain or by
// gzip) to its end, in bounded memory, and looks for the image of the registry.
// The error is a fault.List without places where the content is wrong, and
// otherwise that of content.
func ReadImage(content io.Reader) (Image, error) {
	src := &source{reader: content}
	image, err := readImage(src)
	if src.err != nil {
		return Image{}, src.err
	}
	if err != nil {
		return Image{}, fault.List{fault.Root.Fault(err.Error())}
	}
	return image, nil
}

func readImage(content io.Reader) (Image, error) {
	plain, err := unpacked(bufio.NewReader(content))
	if err != nil {
		return Image{}, err
	}
	limited := &io.LimitedReader{R: plain, N: maxImage}
	index, err := readIndexes(tar.NewReader(limited))
	if err == nil {
		// The rest is padding, but only its end proves gzip's checksum.
		_, err = io.Copy(io.Discard, limited)
	}
	switch {
	case limited.N == 0:
		return Image{}, fmt.Errorf("unpacks to more than %d bytes", int64(maxImage))
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader):
		return Image{}, errors.New("is cut off or damaged; save the image again")
	case errors.Is(err, tar.ErrHeader):
		return Image{}, errors.New("is not a tar archive; expected the file that `docker save` writes")
	case err != nil:
		return Image{}, err
	}
	return index.image()
}

// unpacked takes gzip away and refuses other compressions by name.
func unpacked(content *bufio.Reader) (io.Reader, error) {
	head, err := content.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(head) == 0 {
		return nil, errors.New("is empty; expected the file that `docker save` writes")
	}
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		return gzip.NewReader(content)
	}
	for name, magic := range map[string]string{
		"xz": "\xfd7zXZ", "zstd": "\x28\xb5\x2f\xfd", "bzip2": "BZh", "zip": "PK\x03\x04",
	} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return nil, fmt.Errorf("is compressed by %s; give the tar file plain or compressed by gzip", name)
		}
	}
	return content, nil
}

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
		if err != nil && !found.any {
			return nil, tar.ErrHeader
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
		if familiar := familiarName(tag); repository(familiar) == "registry" {
			image.References = append(image.References, familiar)
		}
	}
	if len(image.References) == 0 {
		return Image{}, fmt.Errorf("holds no image tagged registry (found: %s); save it by name, docker save registry:latest", listed(tags))
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

// familiarName leaves out what Docker adds to the names of its own registry.
func familiarName(tag string) string {
	for _, prefix := range []string{"index.docker.io/", "docker.io/", "library/"} {
		tag = strings.TrimPrefix(tag, prefix)
	}
	return tag
}

// repository is the name without its tag; "" where there is no tag.
func repository(name string) string {
	slash := strings.LastIndexByte(name, '/')
	colon := strings.LastIndexByte(name, ':')
	if colon <= slash {
		return ""
	}
	return name[:colon]
}

// listed shows a few of many texts.
func listed(texts []string) string {
	const most = 8
	if len(texts) == 0 {
		return "none"
	}
	var shown []string
	for i, t := range texts {
		if i == most {
			shown = append(shown, "…")
			break
		}
		shown = append(shown, grammar.Show(t))
	}
	return strings.Join(shown, ", ")
}

func (c *fileCheck) image(content io.Reader) {
	image, err := ReadImage(content)
	if err != nil {
		c.faults(err)
		return
	}
	if image.OnlyOCI {
		c.warn("is an OCI layout without manifest.json; only Docker with the containerd image store loads it, save it by `docker save`")
	}
}
