package registryserver

import (
	"context"
	"errors"

	"github.com/coreos/go-systemd/v22/unit"
)

// orderDropIn makes the engine start after the volume's mount at boot, so that the container
// finds its data even without the agent. It only orders: if the volume is missing, the engine
// starts after systemd's wait for the disk has timed out.
const orderDropIn = "/etc/systemd/system/docker.service.d/nodehitch-volume.conf"

// order plans the drop-in, or removes it if the data is no longer on a volume. systemd needs
// it at the next boot at the earliest.
func (p *plan) order(have *owned) error {
	v := p.volume()
	if v == nil {
		if have.Ordered {
			p.do("remove "+orderDropIn, func(ctx context.Context) error {
				if err := errors.Join(p.Host.Files.Remove(orderDropIn), p.Host.Units.Reload(ctx)); err != nil {
					return err
				}
				return p.own(func(o *owned) { o.Ordered = false })
			})
		}
		return nil
	}
	content := []byte(header + "[Unit]\nAfter=" + unit.UnitNamePathEscape(v.MountPath) + ".mount\n")
	same, err := p.Host.Files.Same(orderDropIn, content, 0o644)
	if err == nil && !same {
		p.do("write "+orderDropIn, func(ctx context.Context) error {
			if err := p.own(func(o *owned) { o.Ordered = true }); err != nil {
				return err
			}
			if err := p.Host.Files.Write(orderDropIn, content, 0o644); err != nil {
				return err
			}
			return p.Host.Units.Reload(ctx)
		})
	}
	return err
}
