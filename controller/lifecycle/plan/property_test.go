package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

func uuid(kind, i int) string { return fmt.Sprintf("%08d-0000-4000-8000-%012d", kind, i) }

// drawInput makes any cluster whose roles are clear: up to one storage server, some
// masters and workers, volumes attached to anyone, everyone, or no one.
func drawInput(t *rapid.T) Input {
	c := &params.Cluster{StorageServer: &params.StorageServer{SSHCPName: "s"}}
	c.Master.SSHCPName, c.Worker.SSHCPName = "m", "w"
	tp := &api.Topology{}
	for i := range rapid.IntRange(1, 3).Draw(t, "volumes") {
		resource, mount := fmt.Sprintf("vol%d", i), fmt.Sprintf("/v%d", i)
		c.StorageServer.Volumes = append(c.StorageServer.Volumes, params.Volume{ResourceID: resource, MountTo: mount})
		c.StorageServer.Exports = append(c.StorageServer.Exports, params.Export{Directory: mount + "/e", To: []string{"10.0.0.0/8"}, MountTo: mount})
		if rapid.IntRange(0, 5).Draw(t, "in the topology") > 0 {
			tp.Volumes = append(tp.Volumes, api.TopologyVolume{ResourceID: resource, ID: uuid(1, i)})
		}
	}
	points := []string{"m", "w", "w"}
	if rapid.Bool().Draw(t, "has a storage server") {
		points = append(points, "s")
	}
	for i, p := range points {
		s := api.Server{ID: uuid(2, i), Name: p, ConnectionPoints: []api.ConnectionPoint{{Name: p, Addresses: []string{"10.0.0.2", "10.0.0.1"}}}}
		for _, v := range tp.Volumes {
			if rapid.IntRange(0, 3).Draw(t, "attached") == 0 == (p != "s") {
				s.VolumeIds = append(s.VolumeIds, v.ID)
			}
		}
		tp.Servers = append(tp.Servers, s)
	}
	in := Input{Epoch: 1, Params: &params.Params{Cluster: c}, Topology: tp, Files: map[string]File{}}
	for i := range rapid.IntRange(0, 3).Draw(t, "registries") {
		r := params.RegistryConnection{Type: params.HTTPS, Server: fmt.Sprintf("r%d:5000", i)}
		if rapid.Bool().Draw(t, "has a CA") {
			r.CertificatePath = fmt.Sprintf("ca%d.crt", rapid.IntRange(0, 1).Draw(t, "CA"))
		}
		c.Registries = append(c.Registries, r)
	}
	for i := range 2 {
		switch rapid.IntRange(0, 3).Draw(t, "file") {
		case 0: // not uploaded
		case 1:
			in.Files[fmt.Sprintf("ca%d.crt", i)] = File{SHA256: strings.Repeat("a", 64), Problem: "is faulty"}
		default:
			in.Files[fmt.Sprintf("ca%d.crt", i)] = File{SHA256: strings.Repeat("b", 64), SizeBytes: 1}
		}
	}
	return in
}

// A section is whole or absent, an absent one is explained, and no volume is in
// two documents.
func TestNoDocumentIsEverHalf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		out := Make(in)
		wanted := in.Params.Cluster.StorageServer
		given := map[string]string{}
		for _, n := range out.Nodes {
			s := n.Config.Storage
			if (s == nil) != (n.Role != api.RoleStorage || len(n.Withheld) > 0) {
				t.Fatalf("%s %s: section %v, withheld %v", n.Role, n.ID, s, n.Withheld)
			}
			if clients := n.Role == api.RoleMaster || n.Role == api.RoleWorker; clients != (n.Config.NFSClient != nil) {
				t.Fatalf("%s %s: NFS client %v", n.Role, n.ID, n.Config.NFSClient)
			}
			connects := n.Role == api.RoleMaster || n.Role == api.RoleWorker
			if r := n.Config.Registries; (r == nil) != (!connects || len(n.Withheld) > 0) || r != nil && len(r) != len(in.Params.Cluster.Registries) {
				t.Fatalf("%s %s: registries %v, withheld %v", n.Role, n.ID, r, n.Withheld)
			}
			for _, f := range n.Config.Files() {
				if f.Sha256 != strings.Repeat("b", 64) {
					t.Fatalf("%s %s: the document names %v", n.Role, n.ID, f)
				}
			}
			if s == nil {
				continue
			}
			if len(s.Volumes) != len(wanted.Volumes) || len(s.Exports) != len(wanted.Exports) {
				t.Fatalf("%d volumes and %d exports given, %d and %d wanted", len(s.Volumes), len(s.Exports), len(wanted.Volumes), len(wanted.Exports))
			}
			for _, v := range s.Volumes {
				if other, again := given[v.VolumeID]; again {
					t.Fatalf("volume %s is given to %s and %s", v.VolumeID, other, n.ID)
				}
				given[v.VolumeID] = n.ID
			}
		}
		recorded := map[string]string{}
		for _, u := range out.Volumes {
			if u.NodeID != "" {
				recorded[u.ID] = u.NodeID
			}
		}
		if !maps.Equal(given, recorded) {
			t.Fatalf("documents name %v, the volumes say %v", given, recorded)
		}
	})
}

func TestTheOrderOfTheInputDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		want := Make(in)
		tp := *in.Topology
		tp.Servers = slices.Clone(rapid.Permutation(tp.Servers).Draw(t, "servers"))
		for i := range tp.Servers {
			tp.Servers[i].VolumeIds = rapid.Permutation(tp.Servers[i].VolumeIds).Draw(t, "attachments")
			tp.Servers[i].ConnectionPoints = slices.Clone(tp.Servers[i].ConnectionPoints)
			p := &tp.Servers[i].ConnectionPoints[0]
			p.Addresses = rapid.Permutation(p.Addresses).Draw(t, "addresses")
		}
		tp.Volumes = rapid.Permutation(tp.Volumes).Draw(t, "topology volumes")
		in.Topology = &tp
		s := in.Params.Cluster.StorageServer
		s.Volumes = rapid.Permutation(s.Volumes).Draw(t, "volumes")
		s.Exports = rapid.Permutation(s.Exports).Draw(t, "exports")
		c := in.Params.Cluster
		c.Registries = rapid.Permutation(c.Registries).Draw(t, "the registries")
		got := Make(in)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the plan changed (-before +after):\n%s", diff)
		}
	})
}

// A worker that comes or goes changes no other document, or a scale-out would
// make every node of the cluster converge again.
func TestADocumentDependsOnItsOwnServerOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		before := map[string]Node{}
		for _, n := range Make(in).Nodes {
			before[n.ID] = n
		}
		tp := *in.Topology
		worker := slices.IndexFunc(tp.Servers, func(s api.Server) bool { return s.Name == "w" && len(s.VolumeIds) == 0 })
		if worker < 0 {
			t.Skip("every worker has a volume attached")
		}
		tp.Servers = slices.Delete(slices.Clone(tp.Servers), worker, worker+1)
		tp.Servers = append(tp.Servers, api.Server{ID: uuid(3, 0), Name: "new", ConnectionPoints: []api.ConnectionPoint{{Name: "w"}}})
		in.Topology = &tp
		for _, n := range Make(in).Nodes {
			if old, ok := before[n.ID]; ok {
				if diff := cmp.Diff(old, n); diff != "" {
					t.Fatalf("the %s's plan changed with a worker (-before +after):\n%s", n.Role, diff)
				}
			}
		}
	})
}

// A registry's section is there with its image, and with its volume if the parameters name
// one; else what is missing is withheld, with a reason for each section.
func TestNoRegistryIsEverHalf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := registryInput()
		if rapid.Bool().Draw(t, "has a volume") {
			in = withVolume(in)
		}
		if rapid.Bool().Draw(t, "the volume is away") {
			in.Topology.Servers[0].VolumeIds = nil
			in.Topology.Volumes = nil
		}
		switch rapid.IntRange(0, 3).Draw(t, "image") {
		case 0:
			in.Params.Registry.ImagePath = ""
		case 1:
			in.Files = nil
		case 2:
			in.Files[imagePath] = File{SHA256: imageDigest, Problem: "is faulty"}
		}
		out := Make(in)
		n := out.Nodes[0]
		c, r := n.Config, in.Params.Registry
		if (c.Registry == nil) != n.withholds(api.SectionRegistry) || r.Volume != nil && (c.Storage == nil) != n.withholds(api.SectionStorage) {
			t.Fatalf("registry %v, storage %v, withheld %v", c.Registry, c.Storage, n.Withheld)
		}
		if r.Volume == nil && c.Storage != nil || c.Registry != nil && r.Volume != nil && c.Storage == nil {
			t.Fatalf("registry %v, storage %v of the volume %v", c.Registry, c.Storage, r.Volume)
		}
		if c.Registry != nil && (c.Registry.Image.File != nil) != (r.ImagePath != "") {
			t.Fatalf("image %v of the path %q", c.Registry.Image, r.ImagePath)
		}
		if given := len(out.Volumes) == 1 && out.Volumes[0].NodeID == n.ID; given != (c.Storage != nil) {
			t.Fatalf("volumes %v, storage %v", out.Volumes, c.Storage)
		}
	})
}
