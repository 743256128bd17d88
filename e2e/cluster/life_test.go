package cluster

import (
	"testing"

	"github.com/nodehitch/nodehitch/e2e/results"
)

// operations are a cluster's life, in this order: each leaves one storage server, one
// master and some workers, all in their roles, to the next.
var operations = []struct {
	name, shows string
	run         func(*cluster, *results.Case)
	// short is in every run; calm is not repeated with disruption.
	short, calm bool
}{
	{"spec-request", "the PersistentVolume spec's request, verbatim: three volumes Available, with the storage server's address", (*cluster).instantiate, true, false},
	{"again", "a second pass of every agent, and the same operation again, change nothing", (*cluster).again, true, true},
	{"in-use", "a heal of the storage server fails while a claim is bound, names the claim, and deletes nothing", (*cluster).inUse, true, false},
	{"heal-storage", "a new storage server with the same volume: the data is kept, and the volumes have the new address", (*cluster).healStorage, true, false},
	{"heal-storage-blank", "a new storage server with a new volume", (*cluster).healStorageBlank, false, false},
	{"heal-given-up", "a heal of the storage server without END: after the deadline the volumes are back", (*cluster).givenUp, false, true},
	{"scale-out", "a worker of a scale-out gets the NFS client", (*cluster).scaleOut, false, false},
	{"scale-in", "workers are removed, with an END and without", (*cluster).scaleIn, false, false},
	{"scale-refused", "a scale of the storage server is refused", (*cluster).refused, false, true},
	{"heal-worker", "a new worker in place of another gets the NFS client", (*cluster).healWorker, false, false},
	{"heal-master", "a new master in place of the owner master completes when its cluster is installed; no volume is changed", (*cluster).healMaster, false, false},
	{"heal-all", "another stack, another cluster, another volume: the volumes are registered there", (*cluster).healAll, false, false},
	{"terminate", "terminate and delete remove the instance, and change no volume", (*cluster).terminate, false, false},
}

// TestLife takes clusters through every operation: undisturbed, with every agent killed
// in the middle, and with the controller killed.
func TestLife(t *testing.T) {
	w := newWorld(t)
	for _, life := range []struct {
		name, shows        string
		agents, controller bool // are killed
	}{
		{name: "undisturbed"},
		{"agents-killed", "every agent killed at each of its actions: ", true, false},
		{"controller-killed", "the controller killed whenever a node makes progress: ", false, true},
	} {
		t.Run(life.name, func(t *testing.T) {
			c := w.newCluster()
			c.Kills.Agents, c.Kills.Controller = life.agents, life.controller
			prefix := ""
			if life.agents || life.controller {
				prefix = life.name + "-"
			}
			c.live(t, prefix, life.shows)
		})
	}
}

func (c *cluster) live(t *testing.T, prefix, shows string) {
	for _, o := range operations {
		if prefix != "" && o.calm {
			continue
		}
		name := prefix + o.name
		ok := t.Run(o.name, func(t *testing.T) {
			r := results.Begin(t, suite, name, shows+o.shows)
			if !o.short || prefix != "" {
				results.LongOnly(t)
			}
			defer c.During(t)()
			defer c.Explain()
			o.run(c, r)
			c.KillsAreOver(r, "killed", 1)
		})
		if !ok {
			t.Fatalf("%s has left something else to the operations after it", name)
		}
	}
}
