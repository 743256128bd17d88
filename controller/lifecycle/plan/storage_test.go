package plan_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
)

func TestAnAdoptedFilesystemReachesTheDocument(t *testing.T) {
	w := lifecycletest.New(t)
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	adopted := "0b6ab447-1111-4222-8333-000000000001"
	_, err := w.Permits.Adopt(w.Ctx, lifecycletest.Volume, adopted)
	w.Must(err)
	config, _, err := w.Lifecycle.Nodes.NodeConfig(w.Ctx, lifecycletest.StorageServer)
	w.Must(err)
	if got := config.Storage.Volumes[0].FilesystemUUID; got != adopted || config.Generation != 2 {
		t.Errorf("filesystem %s in generation %d, want %s in 2", got, config.Generation, adopted)
	}
}
