package stack

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	serverA = "8a3adb69-0784-43c7-833e-aab0b6ab4470"
	serverB = "8d8373fe-6977-49ff-83ac-7756572ed186"
	volumeA = "f0c82461-36b5-4d86-8322-b0bc19cda65f"
	volumeB = "4a0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f1"
)

func TestInlineGivesTheTopologyInOneForm(t *testing.T) {
	topology := func(stackID, serverID, volumeID, address string) *api.Topology {
		return &api.Topology{StackID: stackID, Servers: []api.Server{{ID: serverID, VolumeIds: []string{volumeID},
			ConnectionPoints: []api.ConnectionPoint{{Name: "storage_server_CP", Addresses: []string{address}}}}}}
	}
	given := topology("", strings.ToUpper(serverA), strings.ToUpper(volumeA), "FD00:0::5")
	want := topology("stack", serverA, volumeA, "fd00::5")

	got, err := Inline{}.Resolve(t.Context(), Request{StackID: "stack", Inline: given})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("topology (-want +got):\n%s", diff)
	}
	if given.Servers[0].ID != strings.ToUpper(serverA) {
		t.Error("the request's own topology was changed")
	}
	if _, err := (Inline{}).Resolve(t.Context(), Request{}); !errors.Is(err, ErrNotGiven) || errors.Is(err, errUnobserved) {
		t.Errorf("err %v, want ErrNotGiven", err)
	}
	if _, err := (Inline{}).Resolve(t.Context(), Request{StackID: "stack"}); !errors.Is(err, errUnobserved) {
		t.Errorf("err %v, want errUnobserved", err)
	}
}
