package upgrade

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/shared/durable"
)

// swap puts the build at path in the place of the binary. After a crash at any point the
// binary is the old build or the new one, completely, and if it is the new one, the record
// says so and the old one is kept: each of these lasts before the next begins.
func swap(d *state.Directory, binary, path string, r Record) error {
	if err := keepIdentity(d); err != nil {
		return fmt.Errorf("copying the identity: %w", err)
	}
	if err := keepPrevious(binary); err != nil {
		return fmt.Errorf("keeping the old build: %w", err)
	}
	if err := save(d, r); err != nil {
		return err
	}
	return replace(path, binary)
}

// keepPrevious gives the binary a second name, which stays when another build takes the
// first.
func keepPrevious(binary string) error {
	if err := os.Remove(Previous(binary)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(binary, Previous(binary)); err != nil {
		return err
	}
	return durable.Directory(filepath.Dir(binary))
}

// replace renames a build to the binary.
func replace(path, binary string) error {
	if err := os.Rename(path, binary); err != nil {
		return err
	}
	return durable.Directory(filepath.Dir(binary))
}
