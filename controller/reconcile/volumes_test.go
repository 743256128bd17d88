package reconcile_test

import (
	"encoding/json"
	"testing"

	"github.com/nodehitch/nodehitch/controller/invariant"
	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A volume of a registry is one of the store: with its node, permitted once.
func TestARegistrysVolumeIsPermittedToItsServer(t *testing.T) {
	w := lcmtest.New(t)
	spec := lcmtest.RegistrySpec()
	spec.AdditionalParams = json.RawMessage(`{"private_registry_installation_param": {"ssh_cp_name": "CP1", "volume_resource_id": "registry_volume", "mount_to": "/srv/registry"}}`)
	spec.Topology = lcmtest.RegistryTopology(lcmtest.RegistryServer, lcmtest.Volume)
	w.Put(spec)
	end := lcmtest.Request(api.Instantiate, api.PhaseEnd)
	end.Topology = spec.Topology
	w.Post(end)
	w.Converge(lcmtest.RegistryServer)
	granted, err := w.Permits.Report(w.Ctx, lcmtest.RegistryServer, lcmtest.Volume,
		api.FormatReport{Phase: api.FormatWanted, SizeBytes: 1 << 30, FilesystemUUID: api.FilesystemUUID(lcmtest.Volume), BlankCheck: &api.BlankCheck{}})
	if err != nil || granted.Permit == "" {
		t.Fatalf("permit %+v, %v", granted, err)
	}
	for _, phase := range []api.FormatPhase{api.FormatStarted, api.FormatFormatted} {
		_, err = w.Permits.Report(w.Ctx, lcmtest.RegistryServer, lcmtest.Volume, api.FormatReport{Phase: phase, Permit: granted.Permit, SizeBytes: 1 << 30, FilesystemUUID: api.FilesystemUUID(lcmtest.Volume)})
		w.Must(err)
	}
	w.Post(lcmtest.Heal(api.PhaseEnd, lcmtest.RegistryTopology(lcmtest.RegistryHealed, lcmtest.Volume), lcmtest.RegistryServer))
	c := w.Document(lcmtest.RegistryHealed)
	if c.Storage == nil || len(c.Storage.Volumes) != 1 || c.Storage.Volumes[0].FilesystemUUID != api.FilesystemUUID(lcmtest.Volume) || c.Registry.DataDirectory != "/srv/registry/registry" {
		t.Errorf("document of the healed server %+v, want the kept volume", c)
	}
	if v, err := w.Permits.Get(w.Ctx, lcmtest.Volume); err != nil || v.NodeID != lcmtest.RegistryHealed || v.PermitState != api.PermitFormatted {
		t.Errorf("volume %+v, %v; want it formatted and with the new server", v, err)
	}
	broken, err := invariant.Check(w.Store, w.Blobs.Size)
	w.Must(err)
	if len(broken) > 0 {
		t.Errorf("the records contradict each other: %v", broken)
	}
}
