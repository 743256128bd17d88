package csar

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"strconv"
	"time"
)

// maxDeflated is how large a file may be to be compressed. Images do not become smaller.
const maxDeflated = 16 << 20

// Epoch is the time of every file of a package: that of SOURCE_DATE_EPOCH, or the earliest
// that a zip file can have.
func Epoch(sourceDateEpoch string) (time.Time, error) {
	earliest := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	if sourceDateEpoch == "" {
		return earliest, nil
	}
	seconds, err := strconv.ParseInt(sourceDateEpoch, 10, 64)
	t := time.Unix(seconds, 0).UTC()
	if err != nil || t.Year() > 2107 {
		return t, fmt.Errorf("SOURCE_DATE_EPOCH is %q; expected the seconds since 1970 of a time before 2108", sourceDateEpoch)
	}
	if t.Before(earliest) {
		return earliest, nil
	}
	return t, nil
}

// Write writes the package as a zip file: TOSCA.meta first, then by path. A file that is not
// what Build read is an error.
func (p *Package) Write(to io.Writer, at time.Time) error {
	archive := zip.NewWriter(to)
	for _, f := range p.files {
		header := &zip.FileHeader{Name: f.name, Modified: at, Method: zip.Deflate}
		if f.size > maxDeflated {
			header.Method = zip.Store
		}
		header.SetMode(f.mode)
		entry, err := archive.CreateHeader(header)
		if err == nil {
			err = f.copyTo(entry)
		}
		if err != nil {
			return fmt.Errorf("writing %s into the package: %w", f.name, err)
		}
	}
	return archive.Close()
}

func (f file) copyTo(to io.Writer) error {
	content, err := f.open()
	if err != nil {
		return err
	}
	defer content.Close()
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(to, sum), content); err != nil {
		return err
	}
	if !bytes.Equal(sum.Sum(nil), f.sha256) {
		return fmt.Errorf("it changed while the package was built; run the command again")
	}
	return nil
}
