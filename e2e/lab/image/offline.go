package image

import (
	"context"
	"path/filepath"
)

// Offline returns a folder with these packages and their dependencies, which dpkg can
// install together on every kind of machine of a system: for programs that a test needs beside
// nodehitch and no image has.
func (c *Cache) Offline(ctx context.Context, s System, name string, packages ...string) (string, error) {
	base, err := c.Nspawn(ctx, s)
	if err != nil {
		return "", err
	}
	r := recipe{name: "offline-" + name, offline: packages, scripts: []string{"layer-offer.sh"}}
	layer, err := c.layer(ctx, s, r, []recipe{nspawnRecipe}, []string{base})
	return filepath.Join(layer, "srv/repo-engine"), err
}
