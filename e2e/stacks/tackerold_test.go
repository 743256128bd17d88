package stacks

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// TestTackersOldPackage heals a VNF whose package is older than the flat base HOT for the v1 API: its
// base HOT nests the agent's template, and takes the root certificate with its line breaks.
func TestTackersOldPackage(t *testing.T) {
	kubetest.Require(t)
	w := newWorld(t, nil)
	v := w.newTacker().newV1("simple-storage", clusterRequest, clusterPackage)
	folder := filepath.Join(v.folder(), "BaseHOT")
	if err := errors.Join(os.RemoveAll(folder), os.CopyFS(folder, os.DirFS("testdata/oldpackage"))); err != nil {
		t.Fatal(err)
	}
	l := lifeOf(v, 1)
	w.inOrder(
		step{"tacker-old-instantiate", "a package of before is instantiated by the v1 driver", l.create},
		step{"tacker-old-heal-worker", "a worker is healed", l.healWorker},
		step{"tacker-old-heal-storage", "the storage server is healed", l.healStorage},
		step{"tacker-old-heal-entire", "the entire VNF is healed", l.healEntire},
		step{"tacker-old-heal-again", "a worker is healed again, and once more", func(r *results.Case) {
			l.healWorker(r)
			l.healWorker(r)
		}},
		step{"tacker-old-connect", "a change of external connectivity, which Heat would refuse, is refused before it, with the text of the guide; the PersistentVolumes stay", func(*results.Case) {
			v.operation("CHANGE_EXT_CONN")
			w.inGuide(v.raises("change_external_connectivity_start", connection("storage_server_CP", "other"), nil))
			l.cluster.available()
		}},
		step{"tacker-old-terminate", "nothing of it is left", v.terminate},
	)
}
