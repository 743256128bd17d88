package stack

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/shared/api"
)

var given = []api.ConnectionPoint{{Name: "vip_CP", Addresses: []string{"10.10.0.5"}}}

// What a request gives wins, and what it leaves out comes from the cloud.
func TestARequestsTopologyIsFilledIn(t *testing.T) {
	fake, source := openstacktest.Start(t), heat(t)
	fake.Put(clusterOf(1)...)
	const cp = "storage_server_CP"
	whole := storageServer()
	vip := []api.ConnectionPoint{{Name: "vip_CP", Addresses: []string{"10.0.0.9"}}}
	volume := []api.TopologyVolume{{ResourceID: "storage_server_volume", ID: volumeA, SizeBytes: 2 << 30}}
	filled := api.Topology{StackID: stackA, StackStatus: "CREATE_COMPLETE", StackStatusReason: "done", Servers: []api.Server{whole}, ConnectionPoints: vip, Volumes: volume}
	with := func(change func(*api.Topology)) *api.Topology {
		t := filled
		t.Servers = []api.Server{whole}
		change(&t)
		return &t
	}
	for name, c := range map[string]struct {
		given api.Topology
		want  *api.Topology
	}{
		"an id and a name": {api.Topology{Servers: []api.Server{{ID: strings.ToUpper(serverA), Name: "mine"}}},
			with(func(t *api.Topology) { t.Servers[0].Name = "mine" })},
		"what Tacker's hook has": {api.Topology{StackID: stackA,
			Servers: []api.Server{{ID: serverA, Name: "n", VnfcInstanceID: "vnfc", VduID: "vdu", ConnectionPoints: []api.ConnectionPoint{{Name: cp}}, VolumeIds: []string{volumeA}}},
			Volumes: []api.TopologyVolume{{ResourceID: "storage_server_volume", ID: volumeA}}},
			with(func(t *api.Topology) {
				t.Servers[0].Name, t.Servers[0].VnfcInstanceID, t.Servers[0].VduID = "n", "vnfc", "vdu"
			})},
		"a nested stack that Heat does not have": {api.Topology{Servers: []api.Server{{ID: id(21, 1), Name: "n", MemberStackID: id(9, 9)}}},
			with(func(t *api.Topology) {
				t.Servers[0] = api.Server{ID: id(21, 1), Name: "n", VduID: "Node", AspectID: "worker_instance", MemberStackID: id(9, 9), AvailabilityZone: "nova",
					ConnectionPoints: []api.ConnectionPoint{{Name: "Node_CP1", Addresses: []string{"10.20.0.2"}, MemberStackID: id(23, 1)}}}
			})},
		"a worker by its id": {api.Topology{Servers: []api.Server{{ID: id(21, 1), Name: "n"}}},
			with(func(t *api.Topology) {
				t.Servers[0] = api.Server{ID: id(21, 1), Name: "n", VduID: "Node", AspectID: "worker_instance", MemberStackID: id(23, 1), AvailabilityZone: "nova",
					ConnectionPoints: []api.ConnectionPoint{{Name: "Node_CP1", Addresses: []string{"10.20.0.2"}, MemberStackID: id(23, 1)}}}
			})},
		"everything": {api.Topology{StackStatus: "UPDATE_COMPLETE", ConnectionPoints: given,
			Servers: []api.Server{{ID: serverA, Name: "n", VduID: "v", AspectID: "a", AvailabilityZone: "z", HypervisorHostname: "h", VolumeIds: []string{volumeB},
				ConnectionPoints: []api.ConnectionPoint{{Name: cp, Addresses: []string{"10.1.1.1"}, FloatingAddresses: []string{"203.0.113.77"}}}}},
			Volumes: []api.TopologyVolume{{ResourceID: "r", ID: volumeB, SizeBytes: 5}}},
			&api.Topology{StackID: stackA, StackStatus: "UPDATE_COMPLETE", ConnectionPoints: given,
				Servers: []api.Server{{ID: serverA, Name: "n", VduID: "v", AspectID: "a", AvailabilityZone: "z", HypervisorHostname: "h", VolumeIds: []string{volumeB},
					ConnectionPoints: []api.ConnectionPoint{{Name: cp, Addresses: []string{"10.1.1.1"}, FloatingAddresses: []string{"203.0.113.77"}}, floatingPoint}}},
				Volumes: []api.TopologyVolume{{ResourceID: "r", ID: volumeB, SizeBytes: 5}}}},
		"a list that is given is that list, with floating IPs": {api.Topology{Servers: []api.Server{{ID: serverA, Name: "n", ConnectionPoints: []api.ConnectionPoint{{Name: "else"}}}},
			Volumes: []api.TopologyVolume{{ResourceID: "r", ID: volumeB}}},
			with(func(t *api.Topology) {
				t.Volumes = []api.TopologyVolume{{ResourceID: "r", ID: volumeB, SizeBytes: 7 << 30}}
				t.Servers[0].Name, t.Servers[0].ConnectionPoints, t.Servers[0].VolumeIds = "n", []api.ConnectionPoint{{Name: "else"}, floatingPoint}, []string{volumeB}
			})},
		"a server that the stack does not have": {api.Topology{Servers: []api.Server{{ID: id(9, 9), Name: "n"}}},
			with(func(t *api.Topology) { t.Servers = []api.Server{{ID: id(9, 9), Name: "n"}} })},
		"no server": {api.Topology{Servers: []api.Server{}}, with(func(t *api.Topology) { t.Servers = []api.Server{} })},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := source.Resolve(t.Context(), Request{StackID: "vnf-1", Inline: &c.given, VIM: fake.VIM()})
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("err %v (-want +got):\n%s", err, diff)
			}
		})
	}
}
