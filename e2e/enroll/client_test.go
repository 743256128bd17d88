package enroll

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A worker becomes an NFS client by the distribution's own package, before the
// storage server is there.
func TestAWorkerBecomesAnNFSClient(t *testing.T) {
	w := sitetest.NewWorld(t, lab.KindNspawn)
	address := lab.Gateway.Next()
	worker := api.Server{ID: uuid.NewString(), Name: "worker", ConnectionPoints: []api.ConnectionPoint{
		{Name: "workerNode_CP2", Addresses: []string{address.String()}},
	}}
	storage := site.Storage{
		Instance: uuid.NewString(),
		Server:   api.Server{ID: uuid.NewString(), Name: "storage"},
		Volumes:  []site.Volume{{Name: "data", Disk: lab.Disk{VolumeID: uuid.NewString()}, MountTo: "/volume", SizeBytes: 64 << 20}},
		Exports:  []string{"/volume/nfs/pv1"},
		Others:   []api.Server{worker},
	}
	userData, err := w.Announce(t.Context(), &storage, address.Next(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	node, err := w.Lab.Nspawn(t.Context(), lab.Spec{Name: "worker", ServerID: worker.ID, Address: address, UserData: userData})
	if err != nil {
		t.Fatal(err)
	}
	m := &sitetest.Machine{Node: node, W: w, Server: worker}
	t.Cleanup(func() { sitetest.Explain(t, m) })
	began := time.Now()
	m.Await("the NFS client", func(n *api.Node) error {
		c := n.Status.Condition(api.ConditionNFSClientInstalled)
		if c == nil || c.Status != api.ConditionTrue || c.Reason != api.ReasonInstalled {
			return fmt.Errorf("%s is %+v", api.ConditionNFSClientInstalled, c)
		}
		return nil
	})
	t.Logf("booted to an NFS client: %.1f s", time.Since(began).Seconds())
	if out, err := node.Exec(t.Context(), "mount.nfs4", "-V"); err != nil || !strings.Contains(string(out), "nfs-utils") {
		t.Errorf("mount.nfs4 -V: %s, %v", out, err)
	}
}
