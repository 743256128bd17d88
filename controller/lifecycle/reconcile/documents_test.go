package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestOtherParametersReachTheNodesThatTheyConcern(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	changed, stop := w.Hub.Watch(lifecycletest.StorageServer)
	defer stop()
	unchanged, stopMaster := w.Hub.Watch(lifecycletest.MasterServer)
	defer stopMaster()
	other := lifecycletest.Spec(nil)
	other.AdditionalParams = lifecycletest.Parameters("10.20.0.0/24")
	if got := w.Put(other).DesiredVersion; got != 2 {
		t.Errorf("desired version %d, want 2", got)
	}
	config, digest, err := w.Lifecycle.Nodes.NodeConfig(w.Ctx, lifecycletest.StorageServer)
	w.Must(err)
	if config.Generation != 2 || config.Storage.Exports[0].Client != "10.20.0.0/24" || digest != config.Digest() {
		t.Errorf("document %+v with digest %s", config, digest)
	}
	if n := w.Node(lifecycletest.MasterServer); n.Generation != 1 {
		t.Errorf("the master's generation is %d; nothing of its document changed", n.Generation)
	}
	if !lifecycletest.Woken(changed) || lifecycletest.Woken(unchanged) {
		t.Errorf("poll of the storage server woken: %v, of the master: %v; want the first alone", lifecycletest.Woken(changed), lifecycletest.Woken(unchanged))
	}
}

func TestAVolumeIsInOneDocumentAtATime(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	second, theirs := lifecycletest.UUID(7, 7), lifecycletest.UUID(1, 2)
	_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, second, lifecycletest.Spec(lifecycletest.TopologyOf(lifecycletest.Server(theirs, "storage"))))
	w.Must(err)
	n := w.Node(theirs)
	if len(n.Withheld) != 1 || n.Withheld[0].Reason != api.ReasonMultiAttached || !strings.Contains(n.Withheld[0].Message, lifecycletest.InstanceID) {
		t.Fatalf("withheld %+v, want the volume that instance %s has", n.Withheld, lifecycletest.InstanceID)
	}
	if v, err := w.Permits.Get(w.Ctx, lifecycletest.Volume); err != nil || v.NodeID != lifecycletest.StorageServer || v.VnfInstanceID != lifecycletest.InstanceID {
		t.Errorf("volume %+v, %v; want it with %s", v, err, lifecycletest.StorageServer)
	}
	w.Post(lifecycletest.Request(api.Terminate, api.PhaseEnd))
	if n := w.Node(theirs); len(n.Withheld) != 0 {
		t.Errorf("the volume is free and still withheld: %+v", n.Withheld)
	}
	if v, err := w.Permits.Get(w.Ctx, lifecycletest.Volume); err != nil || v.NodeID != theirs || v.VnfInstanceID != second {
		t.Errorf("volume %+v, %v; want it with %s", v, err, theirs)
	}
}

// The document tells the agent at once that it is worth asking, and no longer than
// that is so.
func TestAReformatReachesTheDocumentAndLeavesIt(t *testing.T) {
	for name, end := range map[string]func(*lifecycletest.World){
		"when it is used": func(w *lifecycletest.World) {
			r := api.FormatReport{Phase: api.FormatWanted, SizeBytes: 1 << 30, FilesystemUUID: api.FilesystemUUID(lifecycletest.Volume)}
			granted, err := w.Permits.Report(w.Ctx, lifecycletest.StorageServer, lifecycletest.Volume, r)
			w.Must(err)
			for _, r.Phase = range []api.FormatPhase{api.FormatStarted, api.FormatFormatted} {
				r.Permit = granted.Permit
				_, err := w.Permits.Report(w.Ctx, lifecycletest.StorageServer, lifecycletest.Volume, r)
				w.Must(err)
			}
		},
		"when its node goes": func(w *lifecycletest.World) {
			w.Must(w.Store.Update(func(tx *store.Tx) error { return w.Permits.NodeGone(tx, lifecycletest.StorageServer) }))
		},
		"when the volume is adopted": func(w *lifecycletest.World) {
			_, err := w.Permits.Adopt(w.Ctx, lifecycletest.Volume, api.FilesystemUUID(lifecycletest.Volume))
			w.Must(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := lifecycletest.New(t)
			w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
			requested := func() (bool, int64) {
				config, _, err := w.Lifecycle.Nodes.NodeConfig(w.Ctx, lifecycletest.StorageServer)
				w.Must(err)
				return config.Storage.Volumes[0].ReformatRequested, config.Generation
			}
			_, err := w.Permits.Reformat(w.Ctx, lifecycletest.Volume, lifecycletest.Volume)
			w.Must(err)
			if yes, generation := requested(); !yes || generation != 2 {
				t.Errorf("after the operator's word: %v in generation %d, want true in 2", yes, generation)
			}
			end(w)
			if yes, generation := requested(); yes || generation != 3 {
				t.Errorf("after the end: %v in generation %d, want false in 3", yes, generation)
			}
		})
	}
}

// The next server of the volume is told that its predecessor may have left half a
// format, until that is settled.
func TestAnInterruptedFormatReachesTheDocumentAndLeavesIt(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	r := api.FormatReport{Phase: api.FormatWanted, SizeBytes: 1 << 30, FilesystemUUID: api.FilesystemUUID(lifecycletest.Volume), BlankCheck: &api.BlankCheck{}}
	granted, err := w.Permits.Report(w.Ctx, lifecycletest.StorageServer, lifecycletest.Volume, r)
	w.Must(err)
	r.Phase, r.Permit = api.FormatStarted, granted.Permit
	_, err = w.Permits.Report(w.Ctx, lifecycletest.StorageServer, lifecycletest.Volume, r)
	w.Must(err)
	told := func(want string) {
		t.Helper()
		config, _, err := w.Lifecycle.Nodes.NodeConfig(w.Ctx, lifecycletest.StorageServer)
		w.Must(err)
		if got := config.Storage.Volumes[0].FormatInterruptedBy; got != want {
			t.Errorf("the document says interrupted by %q, want %q", got, want)
		}
	}
	told("")
	w.Must(w.Store.Update(func(tx *store.Tx) error { return w.Permits.NodeGone(tx, lifecycletest.StorageServer) }))
	told(lifecycletest.StorageServer)
	r.Phase = api.FormatFormatted // it was not lost after all
	_, err = w.Permits.Report(w.Ctx, lifecycletest.StorageServer, lifecycletest.Volume, r)
	w.Must(err)
	told("")
}

// The operator's word is on disk; that the documents could not follow at once, as on a
// full disk, must not leave them as they are until another request needs a plan.
func TestAReconciliationThatFailedIsMadeLater(t *testing.T) {
	w := lifecycletest.Instantiated(t)
	const adopted = "0e7a1e8a-0000-4000-8000-000000000001"
	failing, cancel := context.WithCancel(w.Ctx)
	cancel()
	w.Permits.Changed = func(instanceID string) {
		if err := w.Lifecycle.Reconciler.Reconcile(failing, instanceID); !errors.Is(err, context.Canceled) {
			t.Fatalf("the reconciliation ends with %v", err)
		}
	}
	_, err := w.Permits.Adopt(w.Ctx, lifecycletest.Volume, adopted)
	w.Must(err)
	if got := w.Document(lifecycletest.StorageServer).Storage.Volumes[0].FilesystemUUID; got == adopted {
		t.Fatal("the document has followed already")
	}
	w.Must(w.Lifecycle.Sweep(w.Ctx))
	if got := w.Document(lifecycletest.StorageServer).Storage.Volumes[0].FilesystemUUID; got != adopted {
		t.Errorf("after the next sweep the document has the filesystem %s, want %s", got, adopted)
	}
	if w.Writes(func() { w.Must(w.Lifecycle.Sweep(w.Ctx)) }) {
		t.Error("the sweep after that writes")
	}
}
