package node_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/lifecycle/node"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// lostVNFCs are those that a scrape would find now.
func lostVNFCs(w *lifecycletest.World) (lost []node.LostVNFC) {
	w.Must(w.Store.View(func(t *store.Tx) (err error) {
		l := w.Lifecycle.Nodes.Losses()
		if err = t.Nodes().Each(l.Add); err != nil {
			return err
		}
		lost, err = l.VNFCs(t)
		return err
	}))
	return lost
}

// cluster is an instance with a storage server, three masters and two workers, all Ready.
func cluster(t *testing.T) *lifecycletest.World {
	w := lifecycletest.Clustered(t)
	if lost := lostVNFCs(w); lost != nil {
		t.Fatalf("all servers are there, and %v are lost", lost)
	}
	return w
}

func TestALostVNFCIsOneThatOnlyAnotherServerBringsBack(t *testing.T) {
	storage, worker := lifecycletest.StorageServer, lifecycletest.WorkerServer
	for name, test := range map[string]struct {
		silent []string
		before func(*lifecycletest.World)
		want   []string
	}{
		"a worker":                            {silent: []string{worker}, want: []string{worker}},
		"a master":                            {silent: []string{lifecycletest.MasterServer}, want: []string{lifecycletest.MasterServer}},
		"a master and a worker":               {silent: []string{lifecycletest.MasterServer, worker}, want: []string{lifecycletest.MasterServer, worker}},
		"two masters of three":                {silent: []string{lifecycletest.MasterServer, lifecycletest.OtherMaster}},
		"the storage server":                  {silent: []string{storage}},
		"a worker, with the storage server":   {silent: []string{worker, storage}},
		"half of the servers":                 {silent: []string{lifecycletest.MasterServer, worker, lifecycletest.SecondWorker}},
		"a worker that becomes another agent": {silent: []string{worker}, before: func(w *lifecycletest.World) { offer(w, worker, time.Time{}) }},
		"a worker that has become another agent": {silent: []string{worker}, want: []string{worker},
			before: func(w *lifecycletest.World) { offer(w, worker, w.Clock.Now()) }},
		"a worker whose identity was revoked": {silent: []string{worker}, before: func(w *lifecycletest.World) {
			w.Must(w.Enrollment.Revoke(w.Ctx, worker, "it is sold"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := cluster(t)
			if test.before != nil {
				test.before(w)
			}
			w.FallSilent(test.silent...)
			var want []node.LostVNFC
			for _, id := range test.want {
				want = append(want, node.LostVNFC{InstanceID: lifecycletest.InstanceID, ID: "vnfc-" + id})
			}
			if diff := cmp.Diff(want, lostVNFCs(w)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// offer notes on the record that the node was told to become another agent, and that it was over.
func offer(w *lifecycletest.World, id string, over time.Time) {
	w.Must(w.Store.Update(func(t *store.Tx) error {
		n, _, err := t.Nodes().Get(id)
		if err != nil {
			return err
		}
		n.AgentOffer = &store.AgentOffer{OverAt: over}
		return t.Nodes().Put(id, n)
	}))
}

// From the START of an operation to the end of its END, and after a restart or a restore until the
// silence has lasted again, no VNFC is lost.
func TestNothingIsLostBesideAnOperationOrAfterARestart(t *testing.T) {
	w, worker := cluster(t), lifecycletest.WorkerServer
	want := func(when string, n int) {
		t.Helper()
		if lost := lostVNFCs(w); len(lost) != n {
			t.Errorf("%s: %v are lost, want %d", when, lost, n)
		}
	}
	w.FallSilent(worker)
	want("the worker fell silent", 1)
	w.Restart()
	want("right after a restart", 0)
	w.FallSilent(worker)
	want("it is silent after the restart too", 1)
	w.Lifecycle.Nodes.Seen(worker)
	want("it has called again", 0)
	w.FallSilent(worker)

	start := w.Post(lifecycletest.Heal(api.PhaseStart, nil, worker))
	want("a START waits", 0)
	w.ReportLeft(lifecycletest.MasterServer)
	w.WantState(start, api.Completed)
	want("the START is over, and its END is to come", 0)
	healed := lifecycletest.ClusterOf(lifecycletest.MasterServer, lifecycletest.OtherMaster, lifecycletest.LastMaster, lifecycletest.SecondWorker, lifecycletest.UUID(3, 3))
	end := w.Post(lifecycletest.Heal(api.PhaseEnd, healed, lifecycletest.UUID(3, 3)))
	want("an END waits", 0)
	for range 3 {
		w.Converge(w.Instance().Nodes...)
	}
	w.WantState(end, api.Completed)
	want("it is healed", 0)
	w.FallSilent(lifecycletest.SecondWorker)
	want("another one fell silent after it", 1)

	w.Restore()
	w.FallSilent(w.Instance().Nodes...)
	want("nobody has confirmed the instance since a restore", 0)

	w = lifecycletest.Instantiated(t) // its servers are no members of a cluster: nothing has to leave
	w.FallSilent(worker)
	want("the worker fell silent", 1)
	w.WantState(w.Post(lifecycletest.Heal(api.PhaseStart, nil, worker)), api.Completed)
	want("the START had nothing to do, and its END is to come", 0)
}

// The id of a VNFC that the topology lacks is the one that Tacker makes of Heat's resource.
func TestTheIDOfAVNFCIsTackers(t *testing.T) {
	w := cluster(t)
	w.Outdate(func(_ *lifecycletest.World, d *store.Desired) {
		for i := range d.Topology.Servers {
			s := &d.Topology.Servers[i]
			s.VnfcInstanceID, s.VduID = "", "workerNode"
			if s.ID == lifecycletest.SecondWorker {
				s.VduID = "" // nothing is known by which Tacker would know it
			}
		}
	})
	w.FallSilent(lifecycletest.WorkerServer, lifecycletest.SecondWorker)
	want := []node.LostVNFC{{InstanceID: lifecycletest.InstanceID, ID: "workerNode-" + lifecycletest.WorkerServer}}
	if diff := cmp.Diff(want, lostVNFCs(w)); diff != "" {
		t.Error(diff)
	}
}

// More than ten at a time are an outage.
func TestOfAnOutageNoVNFCIsLost(t *testing.T) {
	workers := []string{lifecycletest.MasterServer}
	for n := range 25 {
		workers = append(workers, lifecycletest.UUID(3, n+1))
	}
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(lifecycletest.ClusterOf(workers...)))
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	op := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	w.Converge(w.Instance().Nodes...)
	w.WantState(op, api.Completed)
	for _, n := range []int{10, 11} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w.FallSilent(workers[1 : n+1]...)
			if got, want := len(lostVNFCs(w)), map[int]int{10: 10, 11: 0}[n]; got != want {
				t.Errorf("%d are lost, want %d", got, want)
			}
		})
	}
}
