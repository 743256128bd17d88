package upgrade

import (
	"bytes"
	"errors"
	"io/fs"

	"github.com/nodehitch/nodehitch/agent/connection/enroll"
	"github.com/nodehitch/nodehitch/agent/state"
)

// identityFiles say who this machine is. No build changes them while it is on probation:
// it neither enrolls nor renews.
var identityFiles = []string{enroll.CurrentFile, state.MachineFile}

func copyOf(name string) string { return "upgrade-" + name }

// keepIdentity copies them beside the record.
func keepIdentity(d *state.Directory) error {
	for _, name := range identityFiles {
		content, err := d.Read(name)
		if err != nil {
			return err
		}
		if err := d.Write(copyOf(name), content); err != nil {
			return err
		}
	}
	return nil
}

// restoreIdentity puts the copies back where the files differ, and returns the names of
// these.
func restoreIdentity(d *state.Directory) (restored []string, err error) {
	for _, name := range identityFiles {
		kept, err := d.Read(copyOf(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // dropped already
		}
		if err != nil {
			return restored, err
		}
		if present, err := d.Read(name); err == nil && bytes.Equal(present, kept) {
			continue
		}
		if err := d.Write(name, kept); err != nil {
			return restored, err
		}
		restored = append(restored, name)
	}
	return restored, nil
}

// dropIdentity removes the copies.
func dropIdentity(d *state.Directory) error {
	for _, name := range identityFiles {
		if _, err := d.Read(copyOf(name)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := d.Remove(copyOf(name)); err != nil {
			return err
		}
	}
	return nil
}
