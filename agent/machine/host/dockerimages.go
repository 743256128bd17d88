package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"
)

// containerdDirectory has the images if the engine lets containerd store them.
const containerdDirectory = "/var/lib/containerd"

func (d *docker) Image(ctx context.Context, reference string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, engineQuery)
	defer cancel()
	found, err := d.api().ImageInspect(ctx, reference)
	if errdefs.IsNotFound(err) {
		return "", nil
	}
	return found.ID, d.explain("inspecting the image "+reference, err)
}

func (d *docker) Load(ctx context.Context, archive io.Reader) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, engineImage)
	defer cancel()
	d.changes.Engine()
	const doing = "loading an image file"
	said, err := d.api().ImageLoad(ctx, archive, client.ImageLoadWithQuiet(true))
	if err != nil {
		return nil, d.explain(doing, err)
	}
	defer said.Close()
	names, err := loaded(said)
	return names, d.explain(doing, err)
}

// loaded are the names that the engine reports at the end of a load.
func loaded(said io.Reader) ([]string, error) {
	var names []string
	for decoder := json.NewDecoder(said); ; {
		var m jsonstream.Message
		err := decoder.Decode(&m)
		switch {
		case errors.Is(err, io.EOF):
			return names, nil
		case err != nil:
			return nil, fmt.Errorf("reading its answer: %w", err)
		case m.Error != nil:
			return nil, m.Error
		}
		for line := range strings.Lines(m.Stream) {
			for _, begin := range []string{"Loaded image: ", "Loaded image ID: "} {
				if name, ok := strings.CutPrefix(strings.TrimSpace(line), begin); ok {
					names = append(names, name)
				}
			}
		}
	}
}

func (d *docker) Pull(ctx context.Context, reference string) error {
	ctx, cancel := context.WithTimeout(ctx, engineImage)
	defer cancel()
	d.changes.Engine()
	progress, err := d.api().ImagePull(ctx, reference, client.ImagePullOptions{})
	if err == nil {
		err = progress.Wait(ctx)
	}
	return d.explain("pulling the image "+reference, err)
}

func (d *docker) RemoveImage(ctx context.Context, reference string) error {
	return d.change(ctx, "removing the image "+reference, func(ctx context.Context) error {
		_, err := d.api().ImageRemove(ctx, reference, client.ImageRemoveOptions{Force: true, PruneChildren: true})
		if errdefs.IsNotFound(err) {
			return nil
		}
		return err
	})
}

func (d *docker) Sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, engineQuery)
	defer cancel()
	info, err := d.api().Info(ctx, client.InfoOptions{})
	if err != nil {
		return d.explain("asking where it stores images", err)
	}
	return errors.Join(syncFilesystem(info.Info.DockerRootDir), syncFilesystem(containerdDirectory))
}

// syncFilesystem flushes the filesystem that a directory is on; it does nothing if there is no
// such directory.
func syncFilesystem(directory string) error {
	f, err := os.Open(directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("flushing the filesystem of %s: %w", directory, err)
	}
	return nil
}
