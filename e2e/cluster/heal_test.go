package cluster

import (
	"strings"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// inUse: while a claim is bound nothing of the storage server is deleted, and the
// START says which claim it is.
func (c *cluster) inUse(*results.Case) {
	volume := c.claims()
	before := c.volumes()
	s := c.try(api.Heal, start, vnfc(c.storage().server))
	if s.code != 1 {
		c.t.Errorf("a START while a claim is bound: %s", s)
	}
	for _, name := range []string{volume, claimNamespace + "/" + claimName} {
		if !strings.Contains(s.stderr, name) {
			c.t.Errorf("it does not name %s: %s", name, s)
		}
	}
	c.untouched(before, true)
	c.inRole() // so the master registers them again, and has nothing to do for it
	c.untouched(before, true)
	c.releases(volume)
}

// healStorage replaces the storage server; its volume, and what is on it, stays.
func (c *cluster) healStorage(r *results.Case) {
	const content = "orders of a shop"
	c.saves(content)
	c.withdrawn()
	c.replace(c.storage())
	c.available(c.storage().Address())
	c.inRole()
	c.kept(r, content)
}

// healStorageBlank replaces the volume, too.
func (c *cluster) healStorageBlank(*results.Case) {
	c.saves("orders of a shop")
	c.withdrawn()
	c.newVolume()
	c.replace(c.storage())
	c.available(c.storage().Address())
	c.inRole()
	c.blank()
}

// withdrawn is the START of a heal of the storage server: no volume is left, and the
// machine that is about to go still serves.
func (c *cluster) withdrawn() {
	c.t.Helper()
	c.operate(api.Heal, start, vnfc(c.storage().server))
	c.none()
}

// replace puts a new server in the place of a machine and ends its heal.
func (c *cluster) replace(m *machine) {
	c.t.Helper()
	c.destroy(m)
	s := c.redraw(m.server)
	c.boot(s)
	c.operate(api.Heal, vnfc(s))
}

// givenUp: a START whose END does not come by its deadline leaves all as it was.
func (c *cluster) givenUp(*results.Case) {
	c.operate(api.Heal, start, vnfc(c.storage().server), "--timeout=30s")
	c.none()
	c.available(c.storage().Address())
	c.inRole()
	var i api.OperationList
	if err := c.JSON(c.t.Context(), &i, "get", "operations", "--instance", c.id); err != nil {
		c.t.Fatal(err)
	}
	last := i.Items[0]
	for _, o := range i.Items {
		if o.StartedAt.After(last.StartedAt) {
			last = o
		}
	}
	if last.State != api.Failed || last.Error == nil || !strings.Contains(last.Error.Type, "interrupted") {
		c.t.Errorf("the START is %+v", last)
	}
}

// healWorker replaces one worker.
func (c *cluster) healWorker(*results.Case) {
	before := c.volumes()
	worker := c.workers()[0]
	c.operate(api.Heal, start, vnfc(worker.server))
	c.replace(worker)
	c.inRole()
	c.untouched(before, true)
}

// healMaster replaces the master that registers the volumes. Nobody may heal the only
// one, so another comes first. Neither it nor the new one is a master of a cluster at
// first; when they are, the operation goes on by itself.
func (c *cluster) healMaster(*results.Case) {
	first := c.master()
	s := c.try(api.Heal, start, vnfc(first.server))
	if s.code != 1 || !strings.Contains(s.stderr, "names every master") {
		c.t.Errorf("to heal the only master: %s", s)
	}
	other := c.boot(c.draw("master", masterPoint, masterAspect))[0]
	c.operate(api.Scale, "--type=SCALE_OUT", "--aspect="+masterAspect, byOne)
	before := c.volumes()

	c.operate(api.Heal, start, vnfc(first.server))
	c.destroy(first)
	healed := c.redraw(first.server)
	c.boot(healed)
	done := make(chan said, 1)
	go func() { done <- c.try(api.Heal, vnfc(healed)) }()
	c.someSays(c.of(masterPoint), api.ConditionPersistentVolumesRegistered, api.ReasonClusterNotInstalled)
	for _, m := range c.of(masterPoint) {
		c.install(m)
	}
	if s := <-done; s.code != 0 {
		c.t.Fatal(s)
	}
	c.inRole()
	c.untouched(before, true)

	c.operate(api.Scale, start, "--type=SCALE_IN", "--aspect="+masterAspect, byOne, vnfc(other.server))
	c.destroy(other)
	c.drop(other.server)
	c.operate(api.Scale, "--type=SCALE_IN", "--aspect="+masterAspect, byOne)
	c.inRole()
	c.untouched(before, true)
}

// healAll replaces everything: another stack, another cluster, another volume.
func (c *cluster) healAll(*results.Case) {
	c.operate(api.Heal, start)
	c.destroy(c.machines...)
	c.newKubernetes()
	c.newStack()
	c.boot(c.topology.Servers...)
	c.install(c.master())
	c.operate(api.Heal, "--stack-id", c.stack)
	c.available(c.storage().Address())
	c.inRole()
	c.blank()
}
