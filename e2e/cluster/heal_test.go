package cluster

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// inUse: while a claim is bound nothing of the storage server is deleted, and the
// START says which claim it is.
func (c *cluster) inUse(*results.Case) {
	volume := c.claims()
	before := c.volumes()
	s := <-c.Begin(api.Heal, sitetest.PhaseStart, sitetest.VNFC(c.storage().Server))
	if s.Code != 1 {
		c.T.Errorf("a START while a claim is bound: %s", s)
	}
	for _, name := range []string{volume, claimNamespace + "/" + claimName} {
		if !strings.Contains(s.Stderr, name) {
			c.T.Errorf("it does not name %s: %s", name, s)
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
	kubetest.Available(c.T, c.kube, c.storage().Address())
	c.inRole()
	c.kept(r, content)
}

// healStorageBlank replaces the volume, too. Its END comes before the new machine: the
// volumes wait for what they point to.
func (c *cluster) healStorageBlank(*results.Case) {
	c.saves("orders of a shop")
	c.withdrawn()
	old := c.storage()
	c.Destroy(old)
	c.newVolume()
	old.Server.VolumeIds = []string{c.volume.VolumeID}
	s := c.Redraw(old.Server)
	done := c.Begin(api.Heal, sitetest.VNFC(s))
	c.Until("the volumes are withheld", func() error {
		n, err := c.master().AsKnown()
		if err == nil && (len(n.Withheld) != 1 || n.Withheld[0].Reason != api.ReasonWaitingForExports || n.Status.ObservedDigest != n.Digest) {
			err = fmt.Errorf("withheld is %v, the status %+v", n.Withheld, n.Status)
		}
		return err
	})
	c.none()
	c.boot(s)
	c.Completes(done)
	kubetest.Available(c.T, c.kube, c.storage().Address())
	c.inRole()
	c.blank()
}

// withdrawn is the START of a heal of the storage server: no volume is left when it is
// over. A finalizer holds one of them back for a while, so that the test can see this and
// disruption comes in the middle.
func (c *cluster) withdrawn() {
	c.T.Helper()
	held := kubetest.VolumeNames[1]
	c.kubectl("patch", "pv", held, "--type=json", `--patch=[{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/held"}]`)
	done := c.Begin(api.Heal, sitetest.PhaseStart, sitetest.VNFC(c.storage().Server))
	c.Until(held+" is being deleted", func() error {
		if c.kubectl("get", "pv", held, "-o", "jsonpath={.metadata.deletionTimestamp}") == "" {
			return errors.New("it is not")
		}
		return nil
	})
	if o := c.LastOperation(); o.State != api.Processing {
		c.T.Errorf("while %s is there the START is %+v", held, o)
	}
	c.Strike()
	c.kubectl("patch", "pv", held, "--type=merge", `--patch={"metadata": {"finalizers": null}}`)
	c.Completes(done)
	c.none()
}

// replace puts a new server in the place of a machine and ends its heal.
func (c *cluster) replace(m *sitetest.Machine) {
	c.T.Helper()
	c.Destroy(m)
	s := c.Redraw(m.Server)
	c.boot(s)
	c.Operate(api.Heal, sitetest.VNFC(s))
}

// givenUp: a START whose END does not come by its deadline leaves all as it was.
func (c *cluster) givenUp(*results.Case) {
	c.Operate(api.Heal, sitetest.PhaseStart, sitetest.VNFC(c.storage().Server), "--deadline=30s")
	c.none()
	kubetest.Available(c.T, c.kube, c.storage().Address())
	c.inRole()
	last := c.LastOperation()
	if last.State != api.Failed || last.Error == nil || !strings.Contains(last.Error.Type, "interrupted") {
		c.T.Errorf("the START is %+v", last)
	}
}

// healWorker replaces one worker.
func (c *cluster) healWorker(*results.Case) {
	before := c.volumes()
	worker := c.workers()[0]
	c.Operate(api.Heal, sitetest.PhaseStart, sitetest.VNFC(worker.Server))
	c.replace(worker)
	c.inRole()
	c.untouched(before, true)
}

// healMaster replaces the master that registers the volumes. The only master cannot be
// healed, so another one is added first. At first neither it nor the new one is a master
// of a cluster; when they are, the operation completes.
func (c *cluster) healMaster(*results.Case) {
	first := c.master()
	s := <-c.Begin(api.Heal, sitetest.PhaseStart, sitetest.VNFC(first.Server))
	if s.Code != 1 || !strings.Contains(s.Stderr, "names every master") {
		c.T.Errorf("to heal the only master: %s", s)
	}
	other := c.boot(c.Draw("master", masterPoint, masterAspect))[0]
	c.Operate(api.Scale, "--type=SCALE_OUT", "--aspect-id="+masterAspect, sitetest.ByOne)
	before := c.volumes()

	c.Operate(api.Heal, sitetest.PhaseStart, sitetest.VNFC(first.Server))
	c.Destroy(first)
	healed := c.Redraw(first.Server)
	c.boot(healed)
	done := c.Begin(api.Heal, sitetest.VNFC(healed))
	c.someSays(c.Of(masterPoint), api.ConditionPersistentVolumesRegistered, api.ReasonClusterNotInstalled)
	for _, m := range c.Of(masterPoint) {
		c.install(m)
	}
	c.Completes(done)
	c.inRole()
	c.untouched(before, true)

	c.Operate(api.Scale, sitetest.PhaseStart, "--type=SCALE_IN", "--aspect-id="+masterAspect, sitetest.ByOne, sitetest.VNFC(other.Server))
	c.Destroy(other)
	c.Drop(other.Server)
	c.Operate(api.Scale, "--type=SCALE_IN", "--aspect-id="+masterAspect, sitetest.ByOne)
	c.inRole()
	c.untouched(before, true)
}

// healAll replaces everything: another stack, another cluster, another volume.
func (c *cluster) healAll(*results.Case) {
	c.Operate(api.Heal, sitetest.PhaseStart)
	c.Destroy(c.Up()...)
	c.newKubernetes()
	c.newStack()
	c.boot(c.Topology.Servers...)
	c.install(c.master())
	c.Operate(api.Heal, "--stack-id", c.Topology.StackID)
	kubetest.Available(c.T, c.kube, c.storage().Address())
	c.inRole()
	c.blank()
}
