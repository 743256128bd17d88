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
// with its volume, and a worker may be one. Its cloud-init does not run: what it is to do is
// left to then.
func (c *cluster) bootThen(userData []byte, then func(m lab.Node, virtual bool) error, servers ...api.Server) []*sitetest.Machine {
	c.T.Helper()
	var specs []lab.Spec
	virtual := map[string]bool{} // by server
	for _, s := range servers {
		spec := sitetest.Spec(s, userData)
		spec.CPUs = c.share(s)
		if virtual[s.ID] = c.virtual(s); virtual[s.ID] {
			spec.UserData = nil
		} else {
			spec.NFSClient = c.shape.installed
		}
		if len(s.VolumeIds) > 0 {
			spec.Disks = []lab.Disk{c.volume}
		}
		specs = append(specs, spec)
	}
	return c.Boot(func(ctx context.Context, spec lab.Spec) (lab.Node, error) {
		start := c.Lab.Nspawn
		if virtual[spec.ServerID] {
			start = c.Lab.VM
		}
		node, err := start(ctx, spec)
		if err == nil {
			err = then(node, virtual[spec.ServerID])
		}
		return node, err
	}, specs...)
}

func (c *cluster) virtual(s api.Server) bool {
	return len(s.VolumeIds) > 0 || c.shape.emulated && sitetest.Point(s) == workerPoint
}

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
