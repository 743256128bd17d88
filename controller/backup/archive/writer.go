package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Writer writes a backup of the present format: the records, then each blob, then Close.
type Writer struct {
	tar  *tar.Writer
	time time.Time
	sums bytes.Buffer
}

// NewWriter begins a backup with its manifest.
func NewWriter(w io.Writer, m Manifest) (*Writer, error) {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the manifest: %w", err)
	}
	text = append(text, '\n')
	out := &Writer{tar: tar.NewWriter(w), time: m.TakenAt}
	return out, out.add(manifestName, int64(len(text)), bytes.NewReader(text))
}

// Store adds the records, of exactly this size.
func (w *Writer) Store(size int64, content io.Reader) error { return w.add(recordsName, size, content) }

// Blob adds a package file, of exactly this size.
func (w *Writer) Blob(sha256 string, size int64, content io.Reader) error {
	return w.add(blobName(sha256), size, content)
}

// Close ends the backup with the sums of all that was added and mac over them.
func (w *Writer) Close(mac func(sums []byte) []byte) error {
	text := append(bytes.Clone(w.sums.Bytes()), fmt.Sprintf("%s%x\n", macPrefix, mac(w.sums.Bytes()))...)
	if err := w.add(checksumsName, int64(len(text)), bytes.NewReader(text)); err != nil {
		return err
	}
	if err := w.tar.Close(); err != nil {
		return fmt.Errorf("ending the backup: %w", err)
	}
	return nil
}

func (w *Writer) add(name string, size int64, content io.Reader) error {
	header := &tar.Header{Name: name, Size: size, Mode: 0o600, ModTime: w.time.Truncate(time.Second), Format: tar.FormatPAX}
	if err := w.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	sum := sha256.New()
	written, err := io.Copy(io.MultiWriter(w.tar, sum), io.LimitReader(content, size))
	if err == nil && written != size {
		err = fmt.Errorf("it ends after %d of %d bytes", written, size)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	w.sums.WriteString(sumLine(sum.Sum(nil), name))
	return nil
}
