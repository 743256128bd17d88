package host

import (
	"context"
	"slices"

	"github.com/moby/moby/client"
)

func (d *docker) ContainerdStore(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, engineQuery)
	defer cancel()
	info, err := d.api().Info(ctx, client.InfoOptions{})
	if err != nil {
		return "", d.explain("reading how it stores images", err)
	}
	if !slices.Contains(info.Info.DriverStatus, [2]string{"driver-type", "io.containerd.snapshotter.v1"}) {
		return "", nil
	}
	return info.Info.ServerVersion, nil
}

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
