package plan

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

const (
	registryID = "22222222-6977-49ff-83ac-7756572ed186"
	imagePath  = "Files/images/private_registry.tar"
	caPath     = "Files/registries/ca.crt"
)

var (
	imageDigest = strings.Repeat("1", 64)
	caDigest    = strings.Repeat("2", 64)
)

// registryInput is the specification's registry VNF, its image uploaded.
func registryInput() Input {
	return Input{
		Epoch:  7,
		Params: &params.Params{Registry: &params.Registry{SSHCPName: "CP1", Username: "ubuntu", ImagePath: imagePath, Port: 5000}},
		Topology: &api.Topology{Servers: []api.Server{{
			ID: registryID, Name: "registry", ConnectionPoints: []api.ConnectionPoint{{Name: "CP1", Addresses: []string{"192.168.0.10"}}},
		}}},
		Files: map[string]File{imagePath: {SHA256: imageDigest, SizeBytes: 23 << 20}},
	}
}

// withVolume puts the registry's data on a volume that its server has.
func withVolume(in Input) Input {
	in.Params.Registry.Volume = &params.Volume{ResourceID: "registry_volume", MountTo: "/srv/registry"}
	in.Topology.Servers[0].VolumeIds = []string{volumeID}
	in.Topology.Volumes = []api.TopologyVolume{{ResourceID: "registry_volume", ID: volumeID, SizeBytes: 1 << 30}}
	return in
}

func TestTheRegistryGetsItsContainer(t *testing.T) {
	out := Make(registryInput())
	n := node(t, out, registryID)
	if n.Name != "registry" || n.Role != api.RoleRegistry || !slices.Equal(n.Addresses, []string{"192.168.0.10"}) || len(n.Withheld) > 0 {
		t.Errorf("registry node: %+v", n)
	}
	want := &api.RegistrySection{
		Image: api.RegistryImage{File: &api.FileReference{Sha256: imageDigest, SizeBytes: 23 << 20}},
		Port:  5000, DataDirectory: "/home/ubuntu/registry",
	}
	if diff := cmp.Diff(want, n.Config.Registry); diff != "" {
		t.Errorf("registry section (-want +got):\n%s", diff)
	}
	if n.Config.Storage != nil {
		t.Errorf("without a volume there is a storage section: %+v", n.Config.Storage)
	}
	if len(out.Volumes) > 0 || len(out.Missing) > 0 || len(out.Warnings) > 0 {
		t.Errorf("plan %+v, want no volumes, no missing roles and no warnings", out)
	}
}

func TestWithoutAnImageFileTheRegistrysImageIsPulled(t *testing.T) {
	in := registryInput()
	in.Params.Registry.ImagePath = ""
	in.Params.Registry.Proxy = &params.Proxy{HTTP: params.NewSecret("http://proxy:3128")}
	c := node(t, Make(in), registryID).Config
	if want := (api.RegistryImage{Reference: "registry:latest"}); c.Registry == nil || c.Registry.Image != want {
		t.Errorf("registry section %+v, want the image %+v", c.Registry, want)
	}
	if c.Proxy.HTTP != "http://proxy:3128" {
		t.Errorf("proxy %+v", c.Proxy)
	}
}

func TestTheRegistrysVolumeIsMountedAndNothingIsExported(t *testing.T) {
	out := Make(withVolume(registryInput()))
	c := node(t, out, registryID).Config
	want := &api.StorageSection{
		Volumes: []api.StorageVolume{{
			VolumeID: volumeID, SizeBytes: 1 << 30, MountPath: "/srv/registry",
			Filesystem: api.Ext4, FilesystemUUID: api.FilesystemUUID(volumeID),
		}},
		Exports: []api.StorageExport{},
	}
	if diff := cmp.Diff(want, c.Storage); diff != "" {
		t.Errorf("storage section (-want +got):\n%s", diff)
	}
	if c.Registry == nil || c.Registry.DataDirectory != "/srv/registry/registry" {
		t.Errorf("registry section %+v, want its data below the mount point", c.Registry)
	}
	uses := []VolumeUse{{ID: volumeID, ResourceID: "registry_volume", SizeBytes: 1 << 30, NodeID: registryID, AttachedTo: []string{registryID}}}
	if diff := cmp.Diff(uses, out.Volumes); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
}

// On a node whose volume is away the container would fill the directory below.
func TestTheRegistryIsWithheldWithItsVolume(t *testing.T) {
	in := withVolume(registryInput())
	in.Topology.Servers[0].VolumeIds = nil
	in.Topology.Volumes = nil
	n := node(t, Make(in), registryID)
	if n.Config.Storage != nil || n.Config.Registry != nil || n.Config.Proxy == nil {
		t.Errorf("document %+v, want neither section", n.Config)
	}
	wantWithheld(t, n, "registry", api.ReasonVolumeUnresolved, `the volume "registry_volume"`)
	wantWithheld(t, n, "storage", api.ReasonVolumeUnresolved, `"registry_volume" is not in the topology`)
}

func TestAFaultyImageWithholdsTheRegistryAndNotItsVolume(t *testing.T) {
	in := withVolume(registryInput())
	in.Files = nil
	n := node(t, Make(in), registryID)
	if n.Config.Storage == nil || n.Config.Registry != nil {
		t.Errorf("document %+v, want the storage section alone", n.Config)
	}
	wantWithheld(t, n, "registry", api.ReasonFileMissing, imagePath+" has not been uploaded")
}

// registries are the specification's two, with the CA uploaded.
func registries() Input {
	in := input()
	in.Topology.Servers = append(in.Topology.Servers,
		api.Server{ID: registryID, Name: "worker", ConnectionPoints: []api.ConnectionPoint{{Name: "workerNode_CP2"}}})
	in.Params.Cluster.Registries = []params.RegistryConnection{
		{
			Type: params.HTTPS, Server: "registry.example.com", Username: "user01", Password: params.NewSecret("pässwörd"),
			CertificatePath: caPath,
			HostsEntry:      &params.HostsEntry{Address: netip.MustParseAddr("192.168.0.20"), Names: []string{"registry.example.com"}},
		},
		{Type: params.HTTP, Server: "192.168.0.10:5000", CertificatePath: "Files/unused.crt"},
	}
	in.Files = map[string]File{caPath: {SHA256: caDigest, SizeBytes: 1200}}
	return in
}

func TestMastersAndWorkersGetTheRegistriesInOrder(t *testing.T) {
	want := []api.RegistryConnection{
		{Server: "192.168.0.10:5000", Scheme: api.RegistryHTTP},
		{
			Server: "registry.example.com", Scheme: api.RegistryHTTPS, Username: "user01", Password: "pässwörd",
			CACertificate: &api.FileReference{Sha256: caDigest, SizeBytes: 1200},
			HostsEntry:    &api.HostsEntry{Address: "192.168.0.20", Names: []string{"registry.example.com"}},
		},
	}
	out := Make(registries())
	for _, id := range []string{masterID, registryID} {
		if diff := cmp.Diff(want, node(t, out, id).Config.Registries); diff != "" {
			t.Errorf("registries of %s (-want +got):\n%s", id, diff)
		}
	}
	if got := node(t, out, storageID).Config.Registries; got != nil {
		t.Errorf("the storage server has %v, want no section", got)
	}
}

// An absent section would leave on the node what was connected before.
func TestNoRegistriesAreAnEmptySection(t *testing.T) {
	c := node(t, Make(input()), masterID).Config
	if c.Registries == nil || len(c.Registries) > 0 {
		t.Errorf("registries %v, want an empty list", c.Registries)
	}
	if !slices.Contains(c.ConditionTypes(), api.ConditionRegistriesConnected) {
		t.Errorf("the document calls for %v", c.ConditionTypes())
	}
}

func TestRegistriesAreWithheldWholeWhen(t *testing.T) {
	for name, c := range map[string]struct {
		file map[string]File
		says string
	}{
		"the CA has not been uploaded": {nil, "the package file " + caPath + " has not been uploaded"},
		"the CA is faulty":             {map[string]File{caPath: {SHA256: caDigest, Problem: caPath + " holds no certificate"}}, "the package file " + caPath + " holds no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			in := registries()
			in.Files = c.file
			again := in.Params.Cluster.Registries[0]
			again.Server = "other.example.com"
			in.Params.Cluster.Registries = append(in.Params.Cluster.Registries, again)
			out := Make(in)
			for _, id := range []string{masterID, registryID} {
				n := node(t, out, id)
				if n.Config.Registries != nil || len(n.Withheld) != 1 {
					t.Errorf("%s has %v and withheld %v, want no section and one reason", n.Role, n.Config.Registries, n.Withheld)
				}
				wantWithheld(t, n, "registries", api.ReasonFileMissing, c.says)
			}
			if n := node(t, out, storageID); n.Config.Storage == nil || len(n.Withheld) > 0 {
				t.Errorf("the storage server is concerned: %+v", n)
			}
		})
	}
}

func wantWithheld(t *testing.T, n Node, section string, reason api.Reason, says string) {
	t.Helper()
	for _, w := range n.Withheld {
		if w.Section == section && w.Reason == reason && w.NodeID == n.ID && strings.Contains(w.Message, says) {
			return
		}
	}
	t.Errorf("withheld %+v, want the section %s for %s, saying %q", n.Withheld, section, reason, says)
}
