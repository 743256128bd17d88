package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nodehitch/nodehitch/shared/durable"
)

// place puts the staged state into the data directory: first the package files,
// which do no harm, then the store by one rename or, if there is none, one link.
// What is replaced has a second name under the directory that is returned before.
func (r *Restore) place(stage string, there bool) (aside string, err error) {
	if err := own(r.DataDirectory, stage); err != nil {
		return "", err
	}
	current := filepath.Join(r.DataDirectory, StoreFile)
	if there {
		if aside, err = r.setAside(current); err != nil {
			return "", err
		}
	}
	if err := r.placeBlobs(stage); err != nil {
		return "", err
	}
	staged := filepath.Join(stage, StoreFile)
	if there {
		err = os.Rename(staged, current)
	} else {
		err = os.Link(staged, current) // fails if a controller was started in between
	}
	return aside, errors.Join(err, durable.Directory(r.DataDirectory))
}

// placeBlobs puts the staged package files beside those that are there.
func (r *Restore) placeBlobs(stage string) error {
	blobs := filepath.Join(r.DataDirectory, "blobs")
	if err := moveBlobs(filepath.Join(stage, "blobs"), blobs); err != nil {
		return err
	}
	return own(r.DataDirectory, blobs)
}

// setAside gives the store and its package files a second name. Those that the new
// store does not name are removed from their first one by the next start.
func (r *Restore) setAside(current string) (string, error) {
	aside, err := newDirectory(filepath.Join(r.DataDirectory, "replaced-"+r.Now().UTC().Format(stamp)))
	if err != nil {
		return "", err
	}
	if err := os.Link(current, filepath.Join(aside, StoreFile)); err != nil {
		return "", err
	}
	blobs := filepath.Join(r.DataDirectory, "blobs")
	err = filepath.WalkDir(blobs, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == blobs {
			return nil
		}
		if err != nil {
			return err
		}
		to := filepath.Join(aside, "blobs", path[len(blobs):])
		if d.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		return os.Link(path, to)
	})
	if err != nil {
		return "", err
	}
	return aside, errors.Join(own(r.DataDirectory, aside), durable.Directory(aside))
}

// newDirectory makes the directory, under another name if a restore of the same
// second has made it.
func newDirectory(path string) (string, error) {
	name := path
	for n := 2; ; n++ {
		err := os.Mkdir(name, 0o700)
		if !errors.Is(err, fs.ErrExist) {
			return name, err
		}
		name = fmt.Sprintf("%s-%d", path, n)
	}
}

func moveBlobs(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, path[len(from):])
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		// Content of the same name is the same.
		return errors.Join(os.Rename(path, target), durable.Directory(filepath.Dir(target)))
	})
}

// own gives all that is below path to the owner of the data directory: the
// controller's user has to read what root has restored.
func own(dataDirectory, path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(dataDirectory)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("the owner of %s is not known", dataDirectory)
	}
	return filepath.WalkDir(path, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, int(owner.Uid), int(owner.Gid)))
	})
}
