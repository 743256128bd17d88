// Package inventory remembers what the agent made on the machine, so that it can
// remove what is no longer desired and nothing else. It is written before a thing
// is made: what is in it may not be there, what is not in it is not ours.
package inventory

import (
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
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
		return f.Damaged(err)
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
		return nil, f.Damaged(err)
	}
	if err := json.Unmarshal(content, &members); err != nil {
		return nil, f.Damaged(err)
	}
	if members == nil { // of null
		return nil, f.Damaged(errors.New("it holds no object"))
	}
	return members, nil
}

// Damaged is the error of an inventory that says nothing that can be relied on: a
// step that waits with StateDamaged. Without one nothing is taken for ours.
func (f File) Damaged(err error) error {
	return converge.Wait(api.ReasonStateDamaged,
		"the inventory %s cannot be used: %v; repair or remove it; after a removal, only what is no longer desired stays on this machine", f.Path, err)
}
