package cluster

import (
	"strings"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// scaleOut adds a worker as Tacker does, which calls no START for it.
func (c *cluster) scaleOut(*results.Case) {
	before := c.volumes()
	worker := c.boot(c.Draw("worker", workerPoint, workerAspect))[0]
	c.Operate(api.Scale, "--type=SCALE_OUT", "--aspect-id="+workerAspect, sitetest.ByOne)
	worker.Says(api.ConditionNFSClientInstalled, api.ReasonInstalled)
	c.inRole()
	c.untouched(before, true)
}

// scaleIn takes two workers away: one as Tacker v1 does, which calls no END, the other
// with an END.
func (c *cluster) scaleIn(r *results.Case) {
	c.scaleOut(r) // more than are to leave
	before := c.volumes()
	for i, worker := range c.workers()[:2] {
		c.Operate(api.Scale, sitetest.PhaseStart, "--type=SCALE_IN", "--aspect-id="+workerAspect, sitetest.ByOne, sitetest.VNFC(worker.Server))
		c.Destroy(worker)
		c.Drop(worker.Server)
		if i > 0 {
			c.Operate(api.Scale, "--type=SCALE_IN", "--aspect-id="+workerAspect, sitetest.ByOne)
		}
		c.inRole()
	}
	c.untouched(before, true)
}

// refused: the spec does not support to scale the storage server.
func (c *cluster) refused(*results.Case) {
	before := c.volumes()
	for _, flags := range [][]string{
		{"--type=SCALE_OUT", "--aspect-id=" + c.storage().Server.Name, sitetest.ByOne}, // no aspect has it
		{sitetest.PhaseStart, "--type=SCALE_IN", sitetest.ByOne, sitetest.VNFC(c.storage().Server)},
	} {
		if s := <-c.Begin(api.Scale, flags...); s.Code != 1 || !strings.Contains(s.Stderr, "cannot be scaled") {
			c.T.Errorf("%s", s)
		}
	}
	c.untouched(before, true)
}

// terminate ends the instance; the cluster's objects go with the cluster.
func (c *cluster) terminate(*results.Case) {
	before := c.volumes()
	c.Operate(api.Terminate, sitetest.PhaseStart)
	c.Operate(api.Terminate)
	var i api.Instance
	if err := c.JSON(c.T.Context(), &i, "get", "instance", c.ID); err != nil {
		c.T.Fatal(err)
	}
	if i.State != api.NotInstantiated {
		c.T.Errorf("the instance is %s", i.State)
	}
	c.untouched(before, true)
	c.Destroy(c.Up()...)
	c.Must("delete", "instance", c.ID)
	if s := c.CLI("get", "instance", c.ID); s.Code == 0 {
		c.T.Errorf("it is still there: %s", s)
	}
}
