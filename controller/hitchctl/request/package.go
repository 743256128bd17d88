package request

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Package is a VNF package: a directory, or a CSAR (zip). Nothing outside of it
// can be reached through it, not by a symbolic link either.
type Package struct {
	fs.FS
	// Name is its path as the user gave it.
	Name  string
	close func() error
}

// OpenPackage opens the package at path. Close must follow.
func OpenPackage(path string) (*Package, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("opening the package: %w", err)
	}
	if info.IsDir() {
		root, err := os.OpenRoot(path)
		if err != nil {
			return nil, fmt.Errorf("opening the package: %w", err)
		}
		return &Package{FS: root.FS(), Name: path, close: root.Close}, nil
	}
	archive, err := zip.OpenReader(path)
	if errors.Is(err, zip.ErrFormat) {
		return nil, fmt.Errorf("opening the package: %s is neither a directory nor a CSAR (zip)", path)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the package: %w", err)
	}
	if err := checkArchive(&archive.Reader); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the package %s: %w", path, err), archive.Close())
	}
	return &Package{FS: archive, Name: path, close: archive.Close}, nil
}

// Close ends the use of the package.
func (p *Package) Close() error { return p.close() }

// Content opens a regular file of the package and says how large it is.
func (p *Package) Content(path string) (io.ReadCloser, int64, error) {
	f, err := p.Open(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}
