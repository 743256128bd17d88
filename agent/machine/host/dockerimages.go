package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"
)

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
