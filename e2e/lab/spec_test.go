package lab

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestSpecDefaults(t *testing.T) {
	taken := map[netip.Addr]string{Gateway: "the lab", Gateway.Next(): "a"}
	s, err := Spec{Name: "b"}.complete(taken)
	if err != nil {
		t.Fatal(err)
	}
	if s.Address != Gateway.Next().Next() {
		t.Errorf("the address is %s", s.Address)
	}
	if _, err := uuid.Parse(s.ServerID); err != nil {
		t.Errorf("the server id %q: %v", s.ServerID, err)
	}
	if !strings.HasPrefix(string(s.UserData), "#cloud-config\n") {
		t.Errorf("user data is %q", s.UserData)
	}
}

func TestSpecIsRefused(t *testing.T) {
	taken := map[netip.Addr]string{Gateway: "the lab itself"}
	full := map[netip.Addr]string{}
	for a := Gateway; Subnet.Contains(a); a = a.Next() {
		full[a] = "another"
	}
	for says, test := range map[string]struct {
		spec  Spec
		taken map[netip.Addr]string
	}{
		"node name":                {Spec{Name: "../up"}, taken},
		"belongs to the lab":       {Spec{Name: "a", Address: Gateway}, taken},
		"want a free host address": {Spec{Name: "a", Address: netip.MustParseAddr("192.0.2.1")}, taken},
		"free host address":        {Spec{Name: "a"}, full},
		"a disk needs":             {Spec{Name: "a", Disks: []Disk{{VolumeID: "v"}}}, taken},
		"server id":                {Spec{Name: "a", ServerID: "web1"}, taken},
	} {
		if _, err := test.spec.complete(test.taken); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want an error about %q", test.spec, err, says)
		}
	}
}

// Nova hands QEMU the first 20 characters; an id that is shorter is kept.
func TestDiskLink(t *testing.T) {
	for id, want := range map[string]string{
		"3f2504e0-4f89-41d3-9a0c-0305e82c3301": "/dev/disk/by-id/virtio-3f2504e0-4f89-41d3-9",
		"short":                                "/dev/disk/by-id/virtio-short",
	} {
		if got := (Disk{VolumeID: id}).Link(); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}
