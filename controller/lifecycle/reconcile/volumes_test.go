package reconcile_test

import (
	"encoding/json"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/invariant"
	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A volume of a registry is one of the store: with its node, permitted once.
func TestARegistrysVolumeIsPermittedToItsServer(t *testing.T) {
	w := lifecycletest.New(t)
	spec := lifecycletest.RegistrySpec()
	spec.AdditionalParams = json.RawMessage(`{"private_registry_installation_param": {"ssh_cp_name": "CP1", "volume_resource_id": "registry_volume", "mount_to": "/srv/registry"}}`)
	spec.Topology = lifecycletest.RegistryTopology(lifecycletest.RegistryServer, lifecycletest.Volume)
	w.Put(spec)
	end := lifecycletest.Request(api.Instantiate, api.PhaseEnd)
	end.Topology = spec.Topology
	w.Post(end)
	w.Converge(lifecycletest.RegistryServer)
	granted, err := w.Permits.Report(w.Ctx, lifecycletest.RegistryServer, lifecycletest.Volume,
		api.FormatReport{Phase: api.FormatWanted, SizeBytes: 1 << 30, FilesystemUUID: api.FilesystemUUID(lifecycletest.Volume), BlankCheck: &api.BlankCheck{}})
	if err != nil || granted.Permit == "" {
		t.Fatalf("permit %+v, %v", granted, err)
	}
	for _, phase := range []api.FormatPhase{api.FormatStarted, api.FormatFormatted} {
		_, err = w.Permits.Report(w.Ctx, lifecycletest.RegistryServer, lifecycletest.Volume, api.FormatReport{Phase: phase, Permit: granted.Permit, SizeBytes: 1 << 30, FilesystemUUID: api.FilesystemUUID(lifecycletest.Volume)})
		w.Must(err)
	}
	w.Post(lifecycletest.Heal(api.PhaseEnd, lifecycletest.RegistryTopology(lifecycletest.RegistryHealed, lifecycletest.Volume), lifecycletest.RegistryServer))
	c := w.Document(lifecycletest.RegistryHealed)
	if c.Storage == nil || len(c.Storage.Volumes) != 1 || c.Storage.Volumes[0].FilesystemUUID != api.FilesystemUUID(lifecycletest.Volume) || c.Registry.DataDirectory != "/srv/registry/registry" {
		t.Errorf("document of the healed server %+v, want the kept volume", c)
	}
	if v, err := w.Permits.Get(w.Ctx, lifecycletest.Volume); err != nil || v.NodeID != lifecycletest.RegistryHealed || v.PermitState != api.PermitFormatted {
		t.Errorf("volume %+v, %v; want it formatted and with the new server", v, err)
	}
	broken, err := invariant.Check(w.Store, w.Blobs.Size)
	w.Must(err)
	if len(broken) > 0 {
		t.Errorf("the records contradict each other: %v", broken)
	}
}
