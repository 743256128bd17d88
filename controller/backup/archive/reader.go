package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Bounds on what is kept in memory, for any backup.
const (
	maxManifest = 1 << 20
	maxLine     = 2*sha256.Size + 2 + len(blobPrefix) + 2*sha256.Size + 1
)

// ErrDamaged says that the content is not what the writer of the backup wrote.
var ErrDamaged = errors.New("the backup was cut off, damaged or changed")

// Taker gets the content of a backup while it is read. The content is verified only when
// Read has returned nil.
type Taker struct {
	// Manifest is called first, and refuses the backup by an error.
	Manifest func(Manifest) error
	// Store and Blob read content to its end, or return an error.
	Store func(size int64, content io.Reader) error
	Blob  func(sha256 string, size int64, content io.Reader) error
}

// Seal is what the writer of a backup signed.
type Seal struct {
	// Sums is what the MAC is over.
	Sums []byte
	MAC  []byte
}

// reader is a backup while it is read.
type reader struct {
	tar      *tar.Reader
	take     Taker
	manifest Manifest
	sums     bytes.Buffer
	blobs    int
}

// Read reads a backup and says what is wrong with it: that it is none, was cut off,
// does not fit its own sums, or contains what no backup does. Whether it was made by
// the controller whose key it names, the caller tells by the Seal.
func Read(from io.Reader, take Taker) (Manifest, Seal, error) {
	r := &reader{tar: tar.NewReader(from), take: take}
	seal, err := r.read()
	if err == nil {
		_, err = io.Copy(io.Discard, from) // tar ends before the padding of its last block does
	}
	return r.manifest, seal, err
}

func (r *reader) read() (Seal, error) {
	if err := r.readManifest(); err != nil {
		return Seal{}, err
	}
	if err := r.readStore(); err != nil {
		return Seal{}, err
	}
	for {
		header, err := r.next()
		if err != nil {
			return Seal{}, err
		}
		if header.Name == checksumsName {
			return r.readChecksums(header)
		}
		digest, ok := blobDigest(header.Name)
		if !ok {
			return Seal{}, fmt.Errorf("the backup holds %.100q: expected a package file or %s", header.Name, checksumsName)
		}
		if err := r.readBlob(header, digest); err != nil {
			return Seal{}, err
		}
	}
}

func (r *reader) readManifest() error {
	header, err := r.next()
	if err != nil {
		return err
	}
	if header.Name != manifestName || header.Size > maxManifest {
		return fmt.Errorf("it begins with %.100q of %d bytes: this is no backup of a nodehitch controller", header.Name, header.Size)
	}
	var text bytes.Buffer
	if err := r.content(header, func(c io.Reader) error { _, err := text.ReadFrom(c); return err }); err != nil {
		return err
	}
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(text.Bytes(), &version); err != nil {
		return fmt.Errorf("its manifest cannot be read: %w", err)
	}
	if version.Format < FormatDatabase || version.Format > Format {
		return fmt.Errorf("its format has version %d and this program reads versions up to %d: use the program of the controller that made it, or a newer one", version.Format, Format)
	}
	if err := json.Unmarshal(text.Bytes(), &r.manifest); err != nil {
		return fmt.Errorf("its manifest cannot be read: %w", err)
	}
	return r.take.Manifest(r.manifest)
}

func (r *reader) readStore() error {
	header, err := r.next()
	if err != nil {
		return err
	}
	if header.Name != r.manifest.storeName() || header.Size != r.manifest.StoreBytes {
		return fmt.Errorf("after the manifest comes %.100q of %d bytes: expected %s of %d", header.Name, header.Size, r.manifest.storeName(), r.manifest.StoreBytes)
	}
	return r.content(header, func(c io.Reader) error { return r.take.Store(header.Size, c) })
}

func (r *reader) readBlob(header *tar.Header, digest string) error {
	r.blobs++
	if err := r.content(header, func(c io.Reader) error { return r.take.Blob(digest, header.Size, c) }); err != nil {
		return err
	}
	if !bytes.HasSuffix(r.sums.Bytes(), []byte(digest+"  "+header.Name+"\n")) {
		return fmt.Errorf("the package file %s has other content than its name says: %w", digest, ErrDamaged)
	}
	return nil
}

// readChecksums compares what was read with what the writer has written.
func (r *reader) readChecksums(header *tar.Header) (Seal, error) {
	if header.Size > int64((r.blobs+4)*maxLine) {
		return Seal{}, fmt.Errorf("%s has %d bytes: %w", checksumsName, header.Size, ErrDamaged)
	}
	text, err := io.ReadAll(r.tar)
	if err != nil {
		return Seal{}, cutOff(checksumsName, err)
	}
	sums := bytes.Clone(r.sums.Bytes())
	rest, fits := bytes.CutPrefix(text, sums)
	line, isMAC := strings.CutPrefix(string(rest), macPrefix)
	mac, err := hex.DecodeString(strings.TrimSuffix(line, "\n"))
	switch {
	case !fits, !isMAC, err != nil:
		return Seal{}, fmt.Errorf("its content does not match its %s: %w", checksumsName, ErrDamaged)
	case r.blobs != r.manifest.PackageFiles:
		return Seal{}, fmt.Errorf("it holds %d package files and its manifest says %d: %w", r.blobs, r.manifest.PackageFiles, ErrDamaged)
	}
	if _, err := r.tar.Next(); !errors.Is(err, io.EOF) {
		return Seal{}, fmt.Errorf("something follows %s: %w", checksumsName, ErrDamaged)
	}
	return Seal{Sums: sums, MAC: mac}, nil
}

// next is the next entry; every one is a plain file.
func (r *reader) next() (*tar.Header, error) {
	header, err := r.tar.Next()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("it ends without %s: %w", checksumsName, ErrDamaged)
	case errors.Is(err, tar.ErrHeader):
		return nil, fmt.Errorf("this is no backup, or %w: %w", ErrDamaged, err)
	case err != nil:
		return nil, fmt.Errorf("reading the backup: %w", err)
	case header.Typeflag != tar.TypeReg:
		return nil, fmt.Errorf("%.100q in it is no plain file: this is no backup of a nodehitch controller", header.Name)
	}
	return header, nil
}

// content gives the entry to take and notes its sum.
func (r *reader) content(header *tar.Header, take func(io.Reader) error) error {
	sum := sha256.New()
	if err := take(io.TeeReader(r.tar, sum)); err != nil {
		return cutOff(header.Name, err)
	}
	r.sums.WriteString(sumLine(sum.Sum(nil), header.Name))
	return nil
}

func cutOff(name string, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("it ends in the middle of %s: %w", name, ErrDamaged)
	}
	return err
}
