package cluster

import (
	"errors"
	"fmt"
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
	c.inRole() // the master registers them again, and finds that nothing is to be done
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

// healStorageBlank replaces the volume, too. Its END comes before the new machine: the
// volumes wait for what they point to.
func (c *cluster) healStorageBlank(*results.Case) {
	c.saves("orders of a shop")
	c.withdrawn()
	old := c.storage()
	c.destroy(old)
	c.newVolume()
	s := c.redraw(old.server)
	done := c.begin(api.Heal, vnfc(s))
	c.until("the volumes are withheld", func() error {
		n, err := c.master().node()
		if err == nil && (len(n.Withheld) != 1 || n.Withheld[0].Reason != api.ReasonWaitingForExports || n.Status.ObservedDigest != n.Digest) {
			err = fmt.Errorf("withheld is %v, the status %+v", n.Withheld, n.Status)
		}
		return err
	})
	c.none()
	c.boot(s)
	if s := <-done; s.code != 0 {
		c.t.Fatal(s)
	}
	c.available(c.storage().Address())
	c.inRole()
	c.blank()
}

// withdrawn is the START of a heal of the storage server: no volume is left when it is
// over. A finalizer holds one of them back for a while, so that the test can see this and
// disruption comes in the middle.
func (c *cluster) withdrawn() {
	c.t.Helper()
	held := volumeNames[1]
	c.kubectl("patch", "pv", held, "--type=json", `--patch=[{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/held"}]`)
	done := c.begin(api.Heal, start, vnfc(c.storage().server))
	c.until(held+" is being deleted", func() error {
		if c.kubectl("get", "pv", held, "-o", "jsonpath={.metadata.deletionTimestamp}") == "" {
			return errors.New("it is not")
		}
		return nil
	})
	if o := c.lastOperation(); o.State != api.Processing {
		c.t.Errorf("while %s is there the START is %+v", held, o)
	}
	c.disruption.strike(c, c.machines)
	c.kubectl("patch", "pv", held, "--type=merge", `--patch={"metadata": {"finalizers": null}}`)
	if s := <-done; s.code != 0 {
		c.t.Fatal(s)
	}
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
	c.operate(api.Heal, start, vnfc(c.storage().server), "--deadline=30s")
	c.none()
	c.available(c.storage().Address())
	c.inRole()
	last := c.lastOperation()
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

// healMaster replaces the master that registers the volumes. The only master cannot be
// healed, so another one is added first. At first neither it nor the new one is a master
// of a cluster; when they are, the operation completes.
func (c *cluster) healMaster(*results.Case) {
	first := c.master()
	s := c.try(api.Heal, start, vnfc(first.server))
	if s.code != 1 || !strings.Contains(s.stderr, "names every master") {
		c.t.Errorf("to heal the only master: %s", s)
	}
	other := c.boot(c.draw("master", masterPoint, masterAspect))[0]
	c.operate(api.Scale, "--type=SCALE_OUT", "--aspect-id="+masterAspect, byOne)
	before := c.volumes()

	c.operate(api.Heal, start, vnfc(first.server))
	c.destroy(first)
	healed := c.redraw(first.server)
	c.boot(healed)
	done := c.begin(api.Heal, vnfc(healed))
	c.someSays(c.of(masterPoint), api.ConditionPersistentVolumesRegistered, api.ReasonClusterNotInstalled)
	for _, m := range c.of(masterPoint) {
		c.install(m)
	}
	if s := <-done; s.code != 0 {
		c.t.Fatal(s)
	}
	c.inRole()
	c.untouched(before, true)

	c.operate(api.Scale, start, "--type=SCALE_IN", "--aspect-id="+masterAspect, byOne, vnfc(other.server))
	c.destroy(other)
	c.drop(other.server)
	c.operate(api.Scale, "--type=SCALE_IN", "--aspect-id="+masterAspect, byOne)
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
