package node_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
)

// Each secret of the cluster is where it must be, and nowhere else in plain text.
func TestSecretsOfAClusterAreSealed(t *testing.T) {
	w := lifecycletest.Joined(t, lifecycletest.FullTopology())
	w.ReportCluster(lifecycletest.MasterServer, lifecycletest.ClusterFacts()) // what it has reported last
	master, worker := w.Document(lifecycletest.MasterServer), w.Document(lifecycletest.WorkerServer).Cluster
	secrets := []string{lifecycletest.VIMToken, master.Cluster.BootstrapToken, worker.BootstrapToken, master.Cluster.CertificateKey}
	nodes, err := w.Lifecycle.Nodes.ListNodes(w.Ctx, lifecycletest.InstanceID, true)
	w.Must(err)
	plan, err := w.Lifecycle.Instances.PlanInstance(w.Ctx, lifecycletest.InstanceID, lifecycletest.Spec(nil))
	w.Must(err)
	shown, err := json.Marshal([]any{w.Instance(), nodes, w.Operations(), plan})
	w.Must(err)
	var backup bytes.Buffer
	taken, err := w.Backups.Take(w.Ctx)
	w.Must(err)
	w.Must(taken.Write(w.Ctx, &backup))
	w.Must(taken.Close())
	for where, text := range map[string][]byte{"what people are shown": shown, "the store": w.Content(), "a backup": backup.Bytes()} {
		if !bytes.Contains(text, []byte(lifecycletest.WorkerServer)) {
			t.Errorf("%s does not even name the worker", where)
		}
		for _, secret := range secrets {
			if secret == "" || bytes.Contains(text, []byte(secret)) {
				t.Errorf("%q is in %s", secret, where)
			}
		}
	}
	if text, err := json.Marshal(w.Document(lifecycletest.WorkerServer)); err != nil || bytes.Contains(text, []byte(master.Cluster.BootstrapToken)) || bytes.Contains(text, []byte(master.Cluster.CertificateKey)) {
		t.Errorf("the worker's document has a secret of the master: %s (%v)", text, err)
	}
}
