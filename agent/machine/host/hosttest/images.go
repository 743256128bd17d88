package hosttest

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/params"
)

// ImagesState is what containerd has for kubelet.
type ImagesState struct {
	// Names are those of the images.
	Names []string
	// Refuses is what ctr says of an archive, "" if it takes all; Down is what it says if
	// containerd does not run.
	Refuses, Down string
	// Renames lets containerd give images other names than the archive does.
	Renames bool
}

type images struct{ *Machine }

func (h images) Names(context.Context) ([]string, error) {
	h.changes.Read()
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.Images.Names), ctrFailed(h.Images.Down)
}

// Import imports what is in the archive, as an archive of the registry role's tests has it.
func (h images) Import(_ context.Context, archive io.Reader) error {
	content, err := io.ReadAll(archive)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes.Command()
	if err := h.change("import images", ""); err != nil {
		return err
	}
	if said := h.Images.Down + h.Images.Refuses; said != "" {
		return ctrFailed(said)
	}
	found, err := params.ReadImages(strings.NewReader(string(content)))
	if err != nil {
		return ctrFailed(err.Error())
	}
	for _, name := range found.Names {
		if h.Images.Renames {
			name = "import-2026-11-28@" + name
		}
		h.Images.Names = append(h.Images.Names, name)
	}
	return nil
}

func (h images) Remove(_ context.Context, names ...string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes.Command()
	if err := h.change("remove images", strings.Join(names, " ")); err != nil {
		return err
	}
	h.Images.Names = slices.DeleteFunc(h.Images.Names, func(name string) bool { return slices.Contains(names, name) })
	return ctrFailed(h.Images.Down)
}

func ctrFailed(said string) error {
	if said == "" {
		return nil
	}
	return &host.CommandError{Argv: []string{"ctr"}, Code: 1, Output: said, Err: errors.New("exit status 1")}
}
