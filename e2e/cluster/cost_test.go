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
	// CPU time of the machines since their power was turned on, and of what drives them:
	// controller and hitchctl, or what speaks SSH.
	machines, driver time.Duration
}

func (c cost) cpu() time.Duration { return c.machines + c.driver }

func (c cost) figure(r *results.Case, name string) {
	r.Figure(name, "%.1f s, CPU %.1f s of the machines and %.2f s of the driver", c.took.Seconds(), c.machines.Seconds(), c.driver.Seconds())
}

// machineTime is the CPU time of all machines that are up, since their start.
func (c *cluster) machineTime() (sum time.Duration) {
	c.t.Helper()
	for _, m := range c.machines {
		used, err := c.Lab.CPUTime(m)
		if err != nil {
			c.t.Fatal(err)
		}
		sum += used
	}
	return sum
}

func (c *cluster) controllerTime() time.Duration {
	c.t.Helper()
	used, err := c.CPUTime()
	if err != nil {
		c.t.Fatal(err)
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

// share is a machine's part of the host's processors, 0 where it has none of its own.
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
