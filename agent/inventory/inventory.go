// Package inventory remembers what the agent made on the machine, so that it can
// remove what is no longer desired and nothing else. It is written before a thing
// is made: what is in it may not be there, what is not in it is not ours.
package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/nodehitch/nodehitch/agent/host"
)

// File is the inventory of one machine: a JSON object with a member for each kind
// of thing, whose owner alone knows its shape.
type File struct {
	Files host.Files
	Path  string
}

// Read decodes the member of a kind into v, which stays as it is where there is none.
func (f File) Read(kind string, v any) error {
	members, err := f.members()
	if err != nil || members[kind] == nil {
		return err
	}
	if err := json.Unmarshal(members[kind], v); err != nil {
		return f.damaged(err)
	}
	return nil
}

// Write replaces the member of a kind, and keeps the others. It is on disk when
// Write returns.
func (f File) Write(kind string, v any) error {
	members, err := f.members()
	if err != nil {
		return err
	}
	if members[kind], err = json.Marshal(v); err != nil {
		return err
	}
	content, err := json.MarshalIndent(members, "", "  ")
	if err != nil {
		return err
	}
	return f.Files.Write(f.Path, append(content, '\n'), 0o600)
}

func (f File) members() (map[string]json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	content, err := f.Files.Read(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return members, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, &members); err != nil {
		return nil, f.damaged(err)
	}
	return members, nil
}

func (f File) damaged(err error) error {
	return fmt.Errorf("the inventory %s cannot be read: %w; remove it if it cannot be mended: nothing is lost but that what is no longer desired stays on this machine", f.Path, err)
}
