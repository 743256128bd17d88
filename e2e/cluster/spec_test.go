package cluster

import (
	"fmt"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// instantiate is the spec's request from nothing to three volumes that can be claimed.
func (c *cluster) instantiate(r *results.Case) {
	r.Figure("machines powered on to three volumes Available", "%.1f s", c.stand(r).took.Seconds())
	c.inRole()
}

// stand says what it costs from the machines' power to volumes that can be claimed.
// The one command of it is hitchctl operate --wait: what it needs to know was applied
// before there was a machine.
func (c *cluster) stand(r *results.Case) cost {
	c.t.Helper()
	c.newKubernetes()
	c.apply()
	before := c.controllerTime()
	began := time.Now()
	c.boot(c.topology.Servers...)
	c.install(c.master())
	r.Figure("boot and user_data alone", "%s", seconds(began))
	s := c.operate(api.Instantiate)
	c.available(c.storage().Address())
	spent := cost{took: time.Since(began), used: c.machineTime().minus(usage{storage: c.injected}), driver: s.cpu + c.controllerTime() - before}
	if !strings.Contains(s.stdout, "completed in") {
		c.t.Errorf("it does not say that it has completed: %s", s)
	}
	return spent
}

// inRole asserts that every machine is in its role, and has nothing left to do.
func (c *cluster) inRole() {
	c.t.Helper()
	for _, m := range c.machines {
		m.ready()
	}
	for _, m := range append(c.workers(), c.of(masterPoint)...) {
		m.mounts()
	}
	exports := c.storage().run("exportfs", "-s")
	for i := range volumeNames {
		if directory := fmt.Sprintf("/volume/nfs/pv%d  10.10.0.0/24(", i+1); !strings.Contains(exports, directory) {
			c.t.Errorf("%s is not exported:\n%s", directory, exports)
		}
	}
}

// again: a second pass of every agent changes nothing, on the machines and in the cluster.
func (c *cluster) again(*results.Case) {
	before := c.volumes()
	for _, m := range c.machines {
		m.stays()
	}
	for _, m := range c.machines {
		m.ready()
	}
	c.untouched(before, true)
	if s := c.operate(api.Instantiate); !strings.Contains(s.stdout, "completed") {
		c.t.Errorf("the same again: %s", s)
	}
	c.untouched(before, true)
}
