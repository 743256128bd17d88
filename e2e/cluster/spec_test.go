package cluster

import (
	"fmt"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
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
	c.T.Helper()
	c.newKubernetes()
	c.Apply(body, packageDir)
	before := c.controllerTime()
	began := time.Now()
	c.boot(c.Topology.Servers...)
	c.install(c.master())
	r.Figure("boot and user_data alone", "%s", seconds(began))
	s := c.Operate(api.Instantiate)
	kubetest.Available(c.T, c.kube, c.storage().Address())
	spent := cost{took: time.Since(began), used: c.machineTime().minus(usage{storage: c.injected}), driver: s.CPU + c.controllerTime() - before}
	if !strings.Contains(s.Stdout, "completed in") {
		c.T.Errorf("it does not say that it has completed: %s", s)
	}
	return spent
}

// inRole asserts that every machine is in its role, and has nothing left to do.
func (c *cluster) inRole() {
	c.T.Helper()
	for _, m := range c.Up() {
		m.Ready()
	}
	for _, m := range append(c.workers(), c.Of(masterPoint)...) {
		c.mounts(m)
	}
	exports := c.storage().Run("exportfs", "-s")
	for i := range kubetest.VolumeNames {
		if directory := fmt.Sprintf("/volume/nfs/pv%d  10.10.0.0/24(", i+1); !strings.Contains(exports, directory) {
			c.T.Errorf("%s is not exported:\n%s", directory, exports)
		}
	}
}

// again: a second pass of every agent changes nothing, on the machines and in the cluster.
func (c *cluster) again(*results.Case) {
	before := c.volumes()
	for _, m := range c.Up() {
		m.SecondPass()
	}
	for _, m := range c.Up() {
		m.Ready()
	}
	c.untouched(before, true)
	if s := c.Operate(api.Instantiate); !strings.Contains(s.Stdout, "completed") {
		c.T.Errorf("the same again: %s", s)
	}
	c.untouched(before, true)
}
