package cluster

import (
	"strings"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

const byOne = "--number-of-steps=1"

// scaleOut adds a worker as Tacker does, which calls no START for it.
func (c *cluster) scaleOut(*results.Case) {
	before := c.volumes()
	worker := c.boot(c.draw("worker", workerPoint, workerAspect))[0]
	c.operate(api.Scale, "--type=SCALE_OUT", "--aspect-id="+workerAspect, byOne)
	worker.says(api.ConditionNFSClientInstalled, api.ReasonInstalled)
	c.inRole()
	c.untouched(before, true)
}

// scaleIn takes two workers away: one as Tacker v1 does, which calls no END, the other
// with an END.
func (c *cluster) scaleIn(r *results.Case) {
	c.scaleOut(r) // more than are to leave
	before := c.volumes()
	for i, worker := range c.workers()[:2] {
		c.operate(api.Scale, start, "--type=SCALE_IN", "--aspect-id="+workerAspect, byOne, vnfc(worker.server))
		c.destroy(worker)
		c.drop(worker.server)
		if i > 0 {
			c.operate(api.Scale, "--type=SCALE_IN", "--aspect-id="+workerAspect, byOne)
		}
		c.inRole()
	}
	c.untouched(before, true)
}

// refused: the spec does not support to scale the storage server.
func (c *cluster) refused(*results.Case) {
	before := c.volumes()
	for _, flags := range [][]string{
		{"--type=SCALE_OUT", "--aspect-id=storage_server", byOne},
		{start, "--type=SCALE_IN", byOne, vnfc(c.storage().server)},
	} {
		if s := c.try(api.Scale, flags...); s.code != 1 || !strings.Contains(s.stderr, "cannot be scaled") {
			c.t.Errorf("%s", s)
		}
	}
	c.untouched(before, true)
}

// terminate ends the instance; the cluster's objects go with the cluster.
func (c *cluster) terminate(*results.Case) {
	before := c.volumes()
	c.operate(api.Terminate, start)
	c.operate(api.Terminate)
	var i api.Instance
	if err := c.JSON(c.t.Context(), &i, "get", "instance", c.id); err != nil {
		c.t.Fatal(err)
	}
	if i.State != api.NotInstantiated {
		c.t.Errorf("the instance is %s", i.State)
	}
	c.untouched(before, true)
	c.destroy(c.machines...)
	c.must("delete", "instance", c.id)
	if s := c.hitchctl("get", "instance", c.id); s.code == 0 {
		c.t.Errorf("it is still there: %s", s)
	}
}
