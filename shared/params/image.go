package params

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
)

const (
	// maxImage bounds what a compressed archive may unpack to; the registry's has
	// some 30 MB.
	maxImage = 8 << 30
	// maxImageIndex bounds manifest.json and index.json.
	maxImageIndex = 1 << 20
)

// Image is what an archive of container images says about the registry's.
type Image struct {
	// References are the tags of the repository registry, such as registry:latest,
	// in the order of the archive. There is at least one.
	References []string
	// OnlyOCI says that the archive is an OCI layout without Docker's manifest.json,
	// which only Docker with the containerd image store loads.
	OnlyOCI bool
	// Architectures are those of the registry's images, as GOARCH, as far as the archive
	// says; none if it does not.
	Architectures []string
}

// archiveKind says in faults what an archive should be, and what to do about one that is damaged.
type archiveKind struct{ expected, remedy string }

var (
	imageArchive   = archiveKind{"the file that `docker save` writes", "save the image again"}
	programArchive = archiveKind{"a tar archive, plain or by gzip, as Kubernetes and the CNI plugins are released", "get it again"}
)

// ReadImage reads an archive as `docker save` writes it (a tar, plain or by
// gzip) to its end, in bounded memory, and looks for the image of the registry.
// The error is a fault.List without places where the content is wrong, and
// otherwise that of content.
func ReadImage(content io.Reader) (Image, error) {
	src := &source{reader: content}
	image, err := readImage(src)
	if err != nil {
		return Image{}, src.fault(err)
	}
	return image, nil
}

func readImage(content io.Reader) (Image, error) {
	index, err := scanImage(content)
	if err != nil {
		return Image{}, err
	}
	return index.image()
}

func scanImage(content io.Reader) (index *indexes, err error) {
	err = readArchive(content, imageArchive, func(archive *tar.Reader) error {
		index, err = readIndexes(archive)
		return err
	})
	return index, err
}

// readArchive reads a tar archive, plain or by gzip, to its end.
func readArchive(content io.Reader, kind archiveKind, read func(*tar.Reader) error) error {
	plain, err := unpacked(bufio.NewReader(content), kind)
	if err != nil {
		return kind.readable(err)
	}
	limited := &io.LimitedReader{R: plain, N: maxImage}
	err = read(tar.NewReader(limited))
	if err == nil {
		// The rest is padding, but only its end proves gzip's checksum.
		_, err = io.Copy(io.Discard, limited)
	}
	if limited.N == 0 {
		return fmt.Errorf("unpacks to more than %d bytes", int64(maxImage))
	}
	return kind.readable(err)
}

// readable puts the errors of damaged archives into words.
func (k archiveKind) readable(err error) error {
	var corrupt flate.CorruptInputError
	switch {
	case errors.Is(err, tar.ErrHeader):
		return errors.New("is not a tar archive; expected " + k.expected)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.As(err, &corrupt):
		return errors.New("is cut off or damaged; " + k.remedy)
	}
	return err
}

// Unpacked is the content of an archive without gzip.
func Unpacked(content io.Reader) (io.Reader, error) {
	return unpacked(bufio.NewReader(content), imageArchive)
}

// unpacked takes gzip away and refuses other compressions by name.
func unpacked(content *bufio.Reader, kind archiveKind) (io.Reader, error) {
	head, err := content.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(head) == 0 {
		return nil, errors.New("is empty; expected " + kind.expected)
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

// agentArchitectures are what agents can be built for, as GOARCH.
var agentArchitectures = []string{"amd64", "arm64", "ppc64le", "riscv64", "s390x"}

func (c *fileCheck) image(content io.Reader) {
	image, err := ReadImage(content)
	if err != nil {
		c.faults(err)
		return
	}
	c.isFor(image.Architectures, "an image")
	if image.OnlyOCI {
		c.warn("is an OCI layout without manifest.json; only Docker with the containerd image store loads it, save it by `docker save`")
	}
}

// isFor takes down the architectures of an archive, and refuses one that there is no agent for.
func (c *fileCheck) isFor(architectures []string, what string) {
	c.r.architectures = append(c.r.architectures, architectures...)
	if len(architectures) > 0 && !slices.ContainsFunc(architectures, func(a string) bool { return slices.Contains(agentArchitectures, a) }) {
		c.fault("holds %s for the architecture %s; expected one that there is an agent for: %s", what, listed(architectures), listed(agentArchitectures))
	}
}
