package tacker

import (
	"testing"

	"github.com/nodehitch/nodehitch/e2e/results"
)

// heal is one that an operator asks Tacker for.
type heal struct {
	name string
	// masters is how many the VNF has.
	masters int
	// servers are those whose VNFCs the request names, nil for the entire VNF.
	servers func(*vnf) []*server
	// names are in the request before them.
	names []string
	// withdraws: the storage server is among them, and the cluster stays.
	withdraws bool
	// refused is what the controller says if the heal is never done.
	refused string
}

var heals = []heal{
	{name: "entire", masters: 1},
	{name: "worker", masters: 1, servers: func(v *vnf) []*server { return v.workers[:1] }},
	{name: "one-master-of-three", masters: 3, servers: func(v *vnf) []*server { return []*server{v.owner()} }},
	{name: "only-master", masters: 1, servers: func(v *vnf) []*server { return v.masters }, refused: "names every master"},
	{name: "storage", masters: 1, servers: func(v *vnf) []*server { return []*server{v.storage} }, withdraws: true},
	{name: "storage-and-worker", masters: 1, servers: func(v *vnf) []*server { return []*server{v.storage, v.workers[0]} }, withdraws: true},
	{name: "unknown", masters: 1, servers: func(v *vnf) []*server { return v.workers[:1] }, names: []string{unknown},
		refused: "/vnfcInstanceIds/0: no server has the VNFC instance, the id or the nested stack \"" + unknown},
}

const unknown = "c1c1c1c1-0000-4000-8000-000000000001"

// state is one of a PersistentVolume when a heal begins.
type state struct {
	name string
	make func(*kubernetes)
	// holds is why it cannot be withdrawn, empty if it can; end ends that.
	holds []string
	end   func(*kubernetes)
	// leaving: it cannot be registered again either.
	leaving bool
}

var states = []state{
	{name: "available", make: func(*kubernetes) {}},
	{name: "bound", make: (*kubernetes).claim, holds: []string{"in use: ", taken, claim}, end: (*kubernetes).release},
	{name: "released", make: func(k *kubernetes) {
		k.claim()
		k.release()
	}},
	{name: "deleted", make: func(k *kubernetes) { k.kubectl("delete", "pv", taken, "--timeout=60s") }},
	{name: "terminating", make: (*kubernetes).terminate, holds: []string{"StuckTerminating", taken, "example.com/held"}, end: (*kubernetes).letGo, leaving: true},
}

// TestHeals heals by the hooks of the v1 driver, with real agents on the masters and two real
// Kubernetes APIs: the VNF's, and that of the cluster which takes its place if the entire VNF
// is healed. Agents plan again only if something has changed, so that a PersistentVolume
// which was deleted stays away until then.
func TestHeals(t *testing.T) {
	var w *tackerMachine
	var present, another *kubernetes
	if results.Full() {
		w = openTackerMachine(t, map[string]string{"convergeSeconds": "3600"})
		present, another = w.newKubernetes(), w.newKubernetes()
	}
	for _, h := range heals {
		for _, s := range states {
			t.Run(h.name+"/"+s.name, func(t *testing.T) {
				results.Begin(t, suite, "heal/"+h.name+"/"+s.name, h.shows(s))
				results.LongOnly(t)
				w.t = t
				t.Cleanup(func() { w.t = w.whole })
				t.Cleanup(another.empty)
				t.Cleanup(present.empty)
				(&healing{heal: h, state: s, vnf: w.newVNF(), present: present, another: another}).run()
			})
		}
	}
}

// shows is what is to be seen of a heal.
func (h heal) shows(s state) string {
	begins := "a PersistentVolume of the storage server is " + s.name + ": "
	switch {
	case h.refused != "":
		return begins + "the heal is refused, and nothing changes"
	case h.withdraws && s.holds != nil:
		return begins + "heal_start fails and names it; when it is free the retry withdraws all, and heal_end registers them again"
	case h.withdraws:
		return begins + "heal_start withdraws all, and heal_end registers them again"
	case h.servers == nil:
		return begins + "the cluster that takes the place of this one gets all, and nothing is withdrawn here"
	case s.leaving && h.masters > 1:
		return begins + "heal_end waits for it and names it; the others are kept"
	}
	return begins + "all are kept"
}

// healing is a heal of a VNF whose PersistentVolume is in a state.
type healing struct {
	heal
	state
	*vnf
	present, another *kubernetes
	// healed are the servers that Heat replaces, before the PersistentVolumes as they were.
	healed  []*server
	before  map[string]volume
	request object
}

// run heals a new VNF.
func (c *healing) run() {
	c.t.Helper()
	c.kube = c.present
	for len(c.vnf.masters) < c.heal.masters {
		c.vnf.masters = append(c.vnf.masters, c.newMaster())
	}
	c.instantiated()
	c.present.available(c.storage.address)
	names := c.names
	if !c.entire() {
		c.healed = c.heal.servers(c.vnf)
	}
	for _, each := range c.healed {
		names = append(names, each.vnfc)
	}
	c.request = object{"vnfc_instance_id": names}
	c.make(c.present)
	c.before = c.present.volumes()

	c.begin("HEAL", nil)
	if c.refused != "" {
		records := len(c.operations())
		c.call("heal_start", c.request, nil).raises(c.refused)
		c.asRecorded(records)
		c.present.unchanged(c.before)
		return
	}
	c.start()
	c.replaced()
	c.end()
	c.over()
}

func (c *healing) entire() bool { return c.heal.servers == nil }

// moves: another master registers the PersistentVolumes afterwards.
func (c *healing) moves() bool { return c.heal.masters > 1 }

// start is heal_start, and Tacker's retry if it fails because of the PersistentVolume.
func (c *healing) start() {
	c.t.Helper()
	if !c.withdraws {
		c.call("heal_start", c.request, nil).succeeds()
		c.present.unchanged(c.before)
		return
	}
	if c.holds != nil {
		records := len(c.operations())
		c.fails("heal_start")
		c.asRecorded(records, "HEAL START FAILED")
		kept := c.before
		if c.leaving { // the others were withdrawn, and come back
			kept = map[string]volume{taken: c.before[taken]}
		}
		c.present.unchanged(kept)
		c.state.end(c.present)
	}
	c.call("heal_start", c.request, nil).succeeds()
	if all := c.present.volumes(); len(all) > 0 {
		c.t.Errorf("after heal_start there are %+v", all)
	}
}

// fails is a hook that fails because of the PersistentVolume, at its deadline at the latest.
func (c *healing) fails(hook string) {
	c.t.Helper()
	c.configure(map[string]string{"deadline": "6"})
	c.call(hook, c.request, nil).raises(c.holds...)
	c.configure(nil)
}

// replaced is what Heat does.
func (c *healing) replaced() {
	c.t.Helper()
	named := c.healed
	if c.entire() {
		c.healed, c.kube = c.vnf.servers(), c.another
	}
	for _, each := range c.healed {
		each.address = address()
	}
	c.vnf.healed(named...)
}

// end is heal_end. A master that now registers the PersistentVolumes waits for one that is
// still being deleted.
func (c *healing) end() {
	c.t.Helper()
	if c.leaving && c.moves() {
		c.fails("heal_end")
		c.state.end(c.present)
	}
	c.call("heal_end", c.request, nil).succeeds()
	for _, each := range c.healed {
		if n := c.Node(each.id); !n.Ready {
			c.t.Errorf("after heal_end the new %s is %+v", each.name, n)
		}
	}
}

// over is what is registered afterwards.
func (c *healing) over() {
	c.t.Helper()
	again := c.withdraws || c.leaving && c.moves()
	if again || c.entire() {
		c.kube.available(c.storage.address)
	}
	if c.withdraws {
		for name, now := range c.present.volumes() {
			if now.Metadata.UID == c.before[name].Metadata.UID {
				c.t.Errorf("%s was not withdrawn: it is %+v", name, now)
			}
		}
		return
	}
	if again {
		delete(c.before, taken)
	}
	c.present.unchanged(c.before)
}
