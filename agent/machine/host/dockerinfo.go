package host

import (
	"context"
	"slices"

	"github.com/moby/moby/client"
)

func (d *docker) InsecureRegistries(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, engineQuery)
	defer cancel()
	info, err := d.api().Info(ctx, client.InfoOptions{})
	if err != nil {
		return nil, d.explain("reading its registries", err)
	}
	c := info.Info.RegistryConfig
	if c == nil {
		return nil, nil
	}
	var insecure []string
	for _, network := range c.InsecureRegistryCIDRs {
		insecure = append(insecure, network.String())
	}
	for name, index := range c.IndexConfigs {
		if index != nil && !index.Secure {
			insecure = append(insecure, name)
		}
	}
	slices.Sort(insecure)
	return insecure, nil
}
