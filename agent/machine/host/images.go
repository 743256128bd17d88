package host

import (
	"context"
	"errors"
	"io"
	"strings"
)

// Images are the images that containerd has for kubelet. They are asked for and given by
// containerd's own program ctr, whose messages are in the *CommandError.
type Images interface {
	// Names are those of the images, in full, such as registry.k8s.io/pause:3.10.1.
	Names(ctx context.Context) ([]string, error)
	// Import imports an archive, a tar that is not compressed. It is on the disk when Import
	// returns.
	Import(ctx context.Context, archive io.Reader) error
	// Remove removes images, and what only they use.
	Remove(ctx context.Context, names ...string) error
}

type images struct{ run *Runner }

func (i *images) Names(ctx context.Context) ([]string, error) {
	said, err := i.run.Run(ctx, imageNamesCommand())
	return strings.Fields(said.Stdout), err
}

func (i *images) Import(ctx context.Context, archive io.Reader) error {
	_, err := i.run.Run(ctx, imageImportCommand(archive))
	return errors.Join(err, syncFilesystem(containerdDirectory))
}

func (i *images) Remove(ctx context.Context, names ...string) error {
	_, err := i.run.Run(ctx, imageRemoveCommand(names...))
	return err
}
