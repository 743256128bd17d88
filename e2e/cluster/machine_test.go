package cluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// boot boots machines side by side, with the instance's user_data and nothing else.
func (c *cluster) boot(servers ...api.Server) []*sitetest.Machine {
	c.T.Helper()
	userData := c.UserData()
	return c.bootThen(userData, func(m lab.Node, virtual bool) error {
		if err := c.Kills.Watch(c.T.Context(), m); err != nil || !virtual {
			return err
		}
		return c.inject(m, userData)
	}, servers...)
}

// inject counts its CPU time as the lab's, because in a cloud nothing is injected.
func (c *cluster) inject(m lab.Node, userData []byte) error {
	before, err := c.Lab.CPUTime(m)
	if err != nil {
		return err
	}
	if err := site.Inject(c.T.Context(), m, userData); err != nil {
		return err
	}
	after, err := c.Lab.CPUTime(m)
	c.injected = after - before
	return err
}

// bootThen does something with each machine as soon as it is up. A storage server is a VM
// with its volume, whose cloud-init does not run: what it is to do is left to then.
func (c *cluster) bootThen(userData []byte, then func(m lab.Node, virtual bool) error, servers ...api.Server) []*sitetest.Machine {
	c.T.Helper()
	var specs []lab.Spec
	for _, s := range servers {
		spec := sitetest.Spec(s, userData)
		spec.CPUs = c.share(s)
		if len(s.VolumeIds) > 0 {
			spec.UserData, spec.Disks = nil, []lab.Disk{c.volume}
		} else {
			spec.NFSClient = c.shape.installed
		}
		specs = append(specs, spec)
	}
	return c.Boot(func(ctx context.Context, spec lab.Spec) (lab.Node, error) {
		start, virtual := c.Lab.Nspawn, spec.Disks != nil
		if virtual {
			start = c.Lab.VM
		}
		node, err := start(ctx, spec)
		if err == nil {
			err = then(node, virtual)
		}
		return node, err
	}, specs...)
}

func virtual(m *sitetest.Machine) bool { return len(m.Server.VolumeIds) > 0 }

// someSays waits until one of the machines has the condition with this reason.
func (c *cluster) someSays(list []*sitetest.Machine, condition string, reason api.Reason) {
	c.T.Helper()
	c.Until(fmt.Sprintf("%s is %s somewhere", condition, reason), func() error {
		var said []string
		for _, m := range list {
			n, err := m.AsKnown()
			if err != nil {
				return err
			}
			found := n.Status.Condition(condition)
			if found != nil && found.Reason == reason && n.Status.ObservedDigest == n.Digest {
				return nil
			}
			said = append(said, fmt.Sprintf("%s: %+v", m.Name(), found))
		}
		return fmt.Errorf("%q", said)
	})
}

// mounts asserts that the machine can mount what the storage server exports: it has
// the client, whether or not this host's kernel has the file system.
func (c *cluster) mounts(m *sitetest.Machine) {
	c.T.Helper()
	if out := m.Run("mount.nfs4", "-V"); !strings.Contains(out, "nfs-utils") {
		c.T.Errorf("%s: mount.nfs4 -V says %q", m.Name(), out)
	}
}
