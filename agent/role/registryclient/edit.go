package registryclient

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

// read returns a file's content, nil if there is no file.
func (s *step) read(path string) ([]byte, error) {
	content, err := s.Host.Files.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return content, err
}

// edit changes a file that others use too. The file is read again when the change is made,
// so that neither of two changes, nor an operator's change in between, is lost.
type edit struct {
	path string
	// mode of a new file; an existing one keeps its own unless secret is set.
	mode   fs.FileMode
	secret bool
	// change returns the new content, nil if nothing is left in the file.
	change func([]byte) ([]byte, error)
	// empty is written if nothing is left in a file that the agent did not create.
	empty string
}

// pending reports whether there is anything to change.
func (s *step) pending(e edit) (bool, error) {
	old, err := s.read(e.path)
	if err != nil {
		return false, err
	}
	changed, err := e.change(old)
	if err != nil {
		return false, invalid(e.path, err)
	}
	if !bytes.Equal(old, changed) {
		return true, nil
	}
	mode, err := s.Host.Files.Mode(e.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return e.secret && mode != e.mode, err
}

// apply makes the change. remember records in the inventory what the change adds; what was
// there before stays the operator's.
func (s *step) apply(e edit, check func(changed []byte) error, remember func(*owned)) error {
	old, err := s.read(e.path)
	if err != nil {
		return err
	}
	changed, err := e.change(old)
	if err != nil {
		return invalid(e.path, err)
	}
	mode, err := s.Host.Files.Mode(e.path)
	made := errors.Is(err, fs.ErrNotExist)
	if err != nil && !made {
		return err
	}
	if check != nil {
		if err := check(changed); err != nil {
			return err
		}
	}
	if made || e.secret {
		mode = e.mode
	}
	if err := s.own(func(o *owned) {
		if made && changed != nil {
			o.Made = add(o.Made, e.path)
		}
		if remember != nil && !bytes.Equal(old, changed) {
			remember(o)
		}
	}); err != nil {
		return err
	}
	if changed == nil {
		return s.leaveEmpty(e, mode)
	}
	return s.Host.Files.Edit(e.path, changed, mode)
}

// leaveEmpty removes a file with nothing left in it if the agent created it, and else
// writes e.empty.
func (s *step) leaveEmpty(e edit, mode fs.FileMode) error {
	o, err := s.owned()
	if err != nil {
		return err
	}
	if !slices.Contains(o.Made, e.path) {
		old, err := s.read(e.path)
		if err != nil || old == nil {
			return err
		}
		return s.Host.Files.Edit(e.path, []byte(e.empty), mode)
	}
	if err := s.Host.Files.Remove(e.path); err != nil {
		return err
	}
	return s.own(func(o *owned) { o.Made = without(o.Made, e.path) })
}

// invalid turns an editor's error about a file that it cannot read into a condition's.
func invalid(path string, err error) error {
	var waiting *converge.Waiting
	if errors.As(err, &waiting) {
		return err
	}
	return converge.Wait(api.ReasonEngineConfigInvalid, "%s", fmt.Sprintf("%s: %v; it is not changed", path, err))
}
