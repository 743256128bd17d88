package image

import (
	"context"
	"path/filepath"
)

// Offline returns a folder with these packages and what they need besides, which dpkg
// can install together on every kind of machine: for what a test sets beside nodehitch,
// and no machine has from the start.
func (c *Cache) Offline(ctx context.Context, name string, packages ...string) (string, error) {
	base, err := c.Nspawn(ctx)
	if err != nil {
		return "", err
	}
	r := recipe{name: "offline-" + name, offline: packages, scripts: []string{"layer-offer.sh"}}
	layer, err := c.layer(ctx, r, []recipe{nspawnRecipe}, []string{base})
	return filepath.Join(layer, "srv/repo-engine"), err
}
