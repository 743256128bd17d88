package cluster

import (
	"runtime"
	"time"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// cost is what it takes to bring the machines of a cluster into their roles.
type cost struct {
	took time.Duration
	used usage
	// driver is the CPU time of what drives the machines: controller and hitchctl, or
	// what speaks SSH.
	driver time.Duration
}

// usage is the CPU time of machines: of the storage server, which may be emulated, and
// of the others.
type usage struct{ storage, others time.Duration }

func (u usage) plus(v usage) usage  { return usage{u.storage + v.storage, u.others + v.others} }
func (u usage) minus(v usage) usage { return usage{u.storage - v.storage, u.others - v.others} }

func (c cost) cpu() time.Duration { return c.used.storage + c.used.others + c.driver }

func (c cost) figure(r *results.Case, name string) {
	r.Figure(name, "%.1f s, CPU %.1f s (storage server %.1f s, masters and workers %.1f s, driver %.2f s)",
		c.took.Seconds(), c.cpu().Seconds(), c.used.storage.Seconds(), c.used.others.Seconds(), c.driver.Seconds())
}

// machineTime is the CPU time of all machines that are up, since their start.
func (c *cluster) machineTime() (sum usage) {
	c.T.Helper()
	for _, m := range c.Up() {
		used, err := c.Lab.CPUTime(m)
		if err != nil {
			c.T.Fatal(err)
		}
		if c.virtual(m.Server) {
			sum.storage += used
		} else {
			sum.others += used
		}
	}
	return sum
}

func (c *cluster) controllerTime() time.Duration {
	c.T.Helper()
	used, err := c.CPUTime()
	if err != nil {
		c.T.Fatal(err)
	}
	return used
}

const (
	// forTheDriver is left of the host's processors to what is no machine of the cluster.
	forTheDriver = 0.5
	// emulated is how many containers' shares a virtual machine has, which may be
	// emulated.
	emulated = 4
)

// share is a machine's part of the host's processors, 0 if it has none of its own.
func (c *cluster) share(s api.Server) float64 {
	if !c.shape.shares {
		return 0
	}
	one := (float64(runtime.NumCPU()) - forTheDriver) / float64(emulated+1+c.shape.workers)
	if len(s.VolumeIds) > 0 {
		return emulated * one
	}
	return one
}
