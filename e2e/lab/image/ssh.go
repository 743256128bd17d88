package image

import (
	"context"
	"path/filepath"
)

// sshRecipe is what a machine needs to be reached by SSH. None has it from the start:
// nodehitch needs none.
var sshRecipe = recipe{name: "ssh", offline: []string{"openssh-server"}, scripts: []string{"layer-offer.sh"}}

// SSH returns a folder with the packages of openssh-server and of what it needs besides,
// which dpkg can install together on every kind of machine.
func (c *Cache) SSH(ctx context.Context) (string, error) {
	base, err := c.Nspawn(ctx)
	if err != nil {
		return "", err
	}
	layer, err := c.layer(ctx, sshRecipe, []recipe{nspawnRecipe}, []string{base})
	return filepath.Join(layer, "srv/repo-engine"), err
}
