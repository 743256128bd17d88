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
	// short is in every run; calm is not done again in trouble.
	short, calm bool
}{
	{"spec-request", "the PersistentVolume spec's request, verbatim: three volumes Available, with the storage server's address", (*cluster).instantiate, true, false},
	{"again", "a second pass of every agent, and the same operation again, change nothing", (*cluster).again, true, true},
	{"in-use", "a heal of the storage server while a claim is bound fails, names it, and deletes nothing", (*cluster).inUse, true, false},
	{"heal-storage", "a new storage server with the same volume: the data is kept, and the volumes have the new address", (*cluster).healStorage, true, false},
	{"heal-storage-blank", "a new storage server with a new volume", (*cluster).healStorageBlank, false, false},
	{"heal-given-up", "a heal of the storage server whose END never comes: the volumes come back", (*cluster).givenUp, false, true},
	{"scale-out", "a worker of a scale-out gets the NFS client", (*cluster).scaleOut, false, false},
	{"scale-in", "workers leave, with an END and without", (*cluster).scaleIn, false, false},
	{"scale-refused", "the storage server is not scaled", (*cluster).refused, false, true},
	{"heal-worker", "a worker that replaces another gets the NFS client", (*cluster).healWorker, false, false},
	{"heal-master", "a master that replaces the owner goes on when its cluster is there; no volume is touched", (*cluster).healMaster, false, false},
	{"heal-all", "another stack, another cluster, another volume: the volumes are registered there", (*cluster).healAll, false, false},
	{"terminate", "terminate and delete leave no instance, and touch no volume", (*cluster).terminate, false, false},
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
		{"controller-killed", "the controller killed whenever a node gets on: ", false, true},
	} {
		t.Run(life.name, func(t *testing.T) {
			c := w.newCluster()
			c.trouble = &trouble{agents: life.agents, controller: life.controller}
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
			before := c.t
			c.t = t
			defer func() { c.t = before }()
			defer c.explain()
			o.run(c, r)
			c.trouble.over(c, r)
		})
		if !ok {
			t.Fatalf("%s has left something else to the operations after it", name)
		}
	}
}
