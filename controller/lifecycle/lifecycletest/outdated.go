package lifecycletest

import "github.com/nodehitch/nodehitch/controller/store"

// Outdated is what an older controller accepted and this one would not, and what says so.
var Outdated = map[string]struct {
	Change  func(*World, *store.Desired)
	Pointer string
	Says    string
}{
	"parameters": {func(w *World, d *store.Desired) {
		var err error
		d.AdditionalParams, err = w.Store.Seal([]byte(`{"k8s_cluster_installation_param": {}}`))
		w.Must(err)
	}, "/additionalParams/k8s_cluster_installation_param", "script_path"},
	"topology": {func(_ *World, d *store.Desired) {
		d.Topology.Servers = append(d.Topology.Servers, Server(UUID(1, 9), "storage"))
	}, "/topology/servers", "storage"},
}

// Outdate changes what is in force, as an older controller may have left it.
func (w *World) Outdate(change func(*World, *store.Desired)) {
	w.Helper()
	w.Must(w.Store.Update(func(tx *store.Tx) error {
		i, _, err := tx.Instances().Get(InstanceID)
		w.Must(err)
		key := store.DesiredKey(InstanceID, i.DesiredVersion)
		d, _, err := tx.Desired().Get(key)
		w.Must(err)
		change(w, &d)
		return tx.Desired().Put(key, d)
	}))
}
