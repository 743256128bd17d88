package agentcontroller

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// The specification's registry, from its request to the image on the node; then
// another image under the same path.
func TestTheRegistryVNF(t *testing.T) {
	const path = "Files/images/private_registry.tar"
	first, second := savedImage(t, "first"), savedImage(t, "second")
	v := newVNF(t, newController(t), "private-registry.json", map[string]string{path: first})
	v.operate("INSTANTIATE", map[string]string{"registry": "CP1"})
	n := v.nodes["registry"]
	if !n.holds(first) {
		t.Fatalf("the node has converged to %+v, without the image", n.last())
	}
	if r := n.last().Registry; r.Port != 5000 || r.DataDirectory != "/home/ubuntu/registry" {
		t.Errorf("registry section %+v", r)
	}
	if out := v.Must("describe", "node", "registry"); !strings.Contains(out, api.ConditionRegistryRunning) {
		t.Errorf("describe node says nothing of the registry:\n%s", out)
	}
	v.file(path, second)
	v.apply()
	loopback.Until(t, "the node has the second image", func() bool { return n.holds(second) })
	v.Must("operate", v.id, "TERMINATE")
	v.Must("delete", "instance", v.id)
	left, err := filepath.Glob(filepath.Join(v.Data(), "blobs", "*", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("files %v are left (%v)", left, err)
	}
}

// A registry whose data lies on a volume is healed: another server gets the same
// document and the volume, and the old server is refused.
func TestTheRegistryVNFOnAVolumeIsHealed(t *testing.T) {
	const path = "Files/images/private_registry.tar"
	image := savedImage(t, "first")
	v := newVNF(t, newController(t), "private-registry.json", map[string]string{path: image})
	v.edit(`"image_path":`, `"volume_resource_id": "registry_volume", "mount_to": "/srv/registry", "image_path":`)
	v.apply()
	disk := api.TopologyVolume{ResourceID: "registry_volume", ID: uuid.NewString(), SizeBytes: size}
	v.operate("INSTANTIATE", map[string]string{"registry": "CP1"}, disk)
	old := v.nodes["registry"]
	v.operate("HEAL", map[string]string{"registry": "CP1"}, disk)
	n := v.nodes["registry"]
	if doc := n.last(); !n.holds(image) || len(doc.Storage.Volumes) != 1 || doc.Storage.Volumes[0].VolumeID != disk.ID ||
		len(doc.Storage.Exports) > 0 || doc.Registry.DataDirectory != "/srv/registry/registry" {
		t.Errorf("the healed server has converged to %+v", doc)
	}
	if before, after := old.last(), n.last(); before.Digest() != after.Digest() {
		t.Errorf("the healed server has another document: %+v, before %+v", after, before)
	}
	if state := v.Node(old.id).State; state != api.NodeRevoked {
		t.Errorf("the old server is %s", state)
	}
}

// The specification's cluster with its two registries: each node gets the CA and the
// login, also when CA and password change, and no other instance's file.
func TestTheRegistriesOfACluster(t *testing.T) {
	const path, script = "Files/registries/ca.crt", "#!/bin/sh\n"
	first, second := string(testca.Root(t, "first").PEM()), string(testca.Root(t, "second").PEM())
	v := newVNF(t, newController(t), "registry-connections.json", map[string]string{path: first, "Scripts/install_k8s_cluster.sh": script})
	v.operate("INSTANTIATE", map[string]string{"master": "masterNode_CP1", "worker": "workerNode_CP2"})
	everywhere := func(what, ca, password string) {
		t.Helper()
		for name, n := range v.nodes {
			loopback.Until(t, name+" has "+what, func() bool {
				r := n.last().Registries
				return len(r) == 2 && r[1].Password == password && n.holds(ca)
			})
			loopback.Until(t, name+" is Ready with "+what, func() bool { return v.Node(n.id).Ready })
		}
	}
	everywhere("what the request says", first, "user01")
	if got := v.nodes["worker"].last().Registries; got[0].Server != "192.168.0.10:5000" || got[0].Scheme != api.RegistryHTTP ||
		got[1].Server != "registry.example.com" || got[1].HostsEntry.Address != "192.168.0.20" {
		t.Errorf("registries %+v", got)
	}
	for _, f := range must(client.Read[api.Instance](v.API.GetInstance(t.Context(), v.id, nil)))(t).Files {
		err := v.nodes["worker"].files.Fetch(t.Context(), api.FileReference{Sha256: f.Sha256, SizeBytes: f.SizeBytes})
		var waiting *converge.Waiting
		if named := f.Path == path; named != (err == nil) || err != nil && (!errors.As(err, &waiting) || waiting.Reason != api.ReasonFileUnavailable) {
			t.Errorf("fetching %s: %v", f.Path, err)
		}
	}
	v.edit(`"password": "user01"`, `"password": "n3w pässword"`)
	out := v.apply()
	everywhere("the new password", first, "n3w pässword")
	v.file(path, second)
	out += v.apply() + v.Must("describe", "instance", v.id) + v.Must("describe", "node", "worker") + v.Must("get", "nodes", "-o", "json")
	everywhere("the new CA", second, "n3w pässword")
	if strings.Contains(out+string(v.Log())+v.nodes["worker"].logs.String(), "n3w pässword") {
		t.Errorf("the password is shown:\n%s", out)
	}
	if left, err := filepath.Glob(filepath.Join(v.Data(), "blobs", "*", "*")); err != nil || len(left) != 2 {
		t.Errorf("files %v (%v), want the script and the second CA", left, err)
	}
	if g := v.nodes["worker"].last().Generation; g != 3 {
		t.Errorf("the worker is in generation %d, want one for the password and one for the CA", g)
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
