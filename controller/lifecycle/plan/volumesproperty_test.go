package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

// drawVolumes is any cluster of drawInput with up to three masters more, manifests in
// any state, and whatever its machines have said and the plan before has decided.
func drawVolumes(t *rapid.T) Input {
	in := drawInput(t)
	for i := range rapid.IntRange(0, 3).Draw(t, "more masters") {
		in.Topology.Servers = append(in.Topology.Servers, api.Server{ID: uuid(4, i), Name: "m", ConnectionPoints: []api.ConnectionPoint{{Name: "m"}}})
	}
	if rapid.Bool().Draw(t, "no master") {
		in.Topology.Servers = slices.DeleteFunc(in.Topology.Servers, func(s api.Server) bool {
			return s.Name == "m" && rapid.Bool().Draw(t, "gone")
		})
	}
	for i := range in.Topology.Servers {
		if s := &in.Topology.Servers[i]; rapid.Bool().Draw(t, "a second CP") {
			s.ConnectionPoints = append(s.ConnectionPoints, api.ConnectionPoint{Name: "extra", Addresses: drawAddresses(t)})
		}
	}
	in.Topology.ConnectionPoints = []api.ConnectionPoint{{Name: "vip", Addresses: drawAddresses(t)}}
	for i := range rapid.IntRange(0, 3).Draw(t, "manifest files") {
		path := fmt.Sprintf("pv%d.yaml", i)
		in.Params.Cluster.PersistentVolumes = append(in.Params.Cluster.PersistentVolumes, params.PVRegistration{
			ManifestPath: path, NFSServerCP: rapid.SampledFrom([]string{"s", "s", "extra", "vip", "m"}).Draw(t, "CP")})
		switch rapid.IntRange(0, 5).Draw(t, "manifest file") {
		case 0: // not uploaded
		case 1:
			in.Files[path] = File{Problem: "is faulty"}
		default:
			f := File{SHA256: path}
			for j := range rapid.IntRange(1, 2).Draw(t, "objects") {
				f.Manifests = append(f.Manifests, manifest(fmt.Sprintf("pv-%d", rapid.SampledFrom([]int{5*i + j, 5*i + j, 1}).Draw(t, "name"))))
			}
			in.Files[path] = f
		}
	}
	in.Withdraw = rapid.IntRange(0, 4).Draw(t, "withdrawn") == 0
	in.CarriedOver = CarriedOver{Owner: drawServer(t, in), Registered: rapid.Bool().Draw(t, "registered")}
	if rapid.Bool().Draw(t, "cluster_members") {
		drawMembers(t, &in)
	}
	in.Nodes = drawObserved(t, in)
	if rapid.Bool().Draw(t, "served before") {
		in.CarriedOver.Served = Make(in).CarriedOver.Served
	}
	return in
}

func drawAddresses(t *rapid.T) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.9", "10.2.0.1", "2001:db8::1", "2001:db8::9"}), 0, 3, rapid.ID).Draw(t, "addresses")
}

func drawServer(t *rapid.T, in Input) string {
	if len(in.Topology.Servers) == 0 {
		return ""
	}
	return rapid.SampledFrom(in.Topology.Servers).Draw(t, "server").ID
}

// drawObserved is what the servers may have said, the truth more often than not.
func drawObserved(t *rapid.T, in Input) map[string]Observed {
	all := map[string]Observed{}
	for _, n := range Make(in).Nodes {
		o := Observed{Enrolled: true, Heard: rapid.Bool().Draw(t, "heard")}
		if n.Role == api.RoleMaster && in.Params.Cluster.Members != nil {
			o.Enrolled = o.Heard || rapid.Bool().Draw(t, "enrolled")
			switch rapid.IntRange(0, 4).Draw(t, "member") {
			case 0:
				o.Member = o.Enrolled
			case 1, 2:
				o.NotJoined = o.Enrolled
			case 3:
				o.Anew = o.Enrolled
			}
		}
		o.Serves = rapid.SampledFrom([]string{n.Config.Digest(), n.Config.Digest(), "", "of another document"}).Draw(t, "serves")
		all[n.ID] = o
	}
	return all
}

func nodeOf(out Output, role api.Role) *Node {
	if i := slices.IndexFunc(out.Nodes, func(n Node) bool { return n.Role == role }); i >= 0 {
		return &out.Nodes[i]
	}
	return nil
}

// The section is with one master, whole, and only once what it points to is served; else
// that master says what is missing.
func TestVolumesAreWholeAndServedOrWithheld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawVolumes(t)
		out := Make(in)
		s, owner := section(t, out)
		storage, wanted := nodeOf(out, api.RoleStorage), len(in.Params.Cluster.PersistentVolumes) > 0 || in.CarriedOver.Registered
		withheld := slices.ContainsFunc(out.Nodes, func(n Node) bool { return n.withholds(api.SectionPersistentVolumes) })
		if want := wanted && nodeOf(out, api.RoleMaster) != nil; want != (withheld != (s != nil)) {
			t.Fatalf("wanted %v: section %+v, withheld %v", want, s, withheld)
		}
		if s == nil {
			return
		}
		if owner != out.CarriedOver.Owner || (s.State == api.PersistentVolumesAbsent) != in.Withdraw || !out.CarriedOver.Registered {
			t.Fatalf("section %+v of %s, and %+v is carried over", s, owner, out.CarriedOver)
		}
		seen := in.Nodes[storage.ID]
		if !in.Withdraw && in.CarriedOver.Served != storage.served() && (!seen.Heard || storage.Config.Storage == nil || seen.Serves != storage.Config.Digest()) {
			t.Fatalf("given, and the storage server has said %+v of %s", seen, storage.Config.Digest())
		}
		checkServers(t, in, storage, s)
	})
}

// checkServers wants the section's addresses to be complete, and its manifests to be on them.
func checkServers(t *rapid.T, in Input, storage *Node, s *api.PersistentVolumesSection) {
	if !slices.IsSorted(s.Servers) || len(slices.Compact(slices.Clone(s.Servers))) != len(s.Servers) {
		t.Fatalf("the addresses %v are not in order, each once", s.Servers)
	}
	for _, a := range storage.Addresses {
		if !slices.Contains(s.Servers, a) {
			t.Fatalf("%v lacks %s of the storage server", s.Servers, a)
		}
	}
	count, before := 0, ""
	for _, r := range in.Params.Cluster.PersistentVolumes {
		count += len(in.Files[r.ManifestPath].Manifests)
	}
	if len(s.Manifests) != count {
		t.Fatalf("%d manifests, want %d", len(s.Manifests), count)
	}
	for _, m := range s.Manifests {
		var object struct {
			Metadata struct{ Name string }
			Spec     struct{ NFS struct{ Server string } }
		}
		if err := json.Unmarshal(m, &object); err != nil || !slices.Contains(s.Servers, object.Spec.NFS.Server) || object.Metadata.Name <= before {
			t.Fatalf("manifest %s after %q, of the servers %v (%v)", m, before, s.Servers, err)
		}
		before = object.Metadata.Name
	}
}

// speaker is the owner, else the master that says why nobody speaks for the cluster.
func speaker(o Output) string {
	first := nodeOf(o, api.RoleMaster)
	if o.CarriedOver.Owner != "" || first == nil {
		return o.CarriedOver.Owner
	}
	return first.ID
}

// The next plan keeps what a plan has decided, whatever the conditions do: which master
// speaks, as long as it is present, and what was given.
func TestAPlanStands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawVolumes(t)
		before := Make(in)
		in.CarriedOver = before.CarriedOver
		again := Make(in)
		if diff := cmp.Diff(before, again); diff != "" {
			t.Fatalf("the same again (-before +after):\n%s", diff)
		}
		given, owner := section(t, before)
		in.Nodes = drawObserved(t, in)
		if owner != "" {
			in.Nodes[owner] = Observed{Enrolled: true, Heard: true}
		}
		after := Make(in)
		if beganOrEnded(before, after) {
			return // every member learns of its cluster, or that it is no more
		}
		if s, who := section(t, after); given != nil && (who != owner || cmp.Diff(given, s) != "") {
			t.Fatalf("%s had %+v, and now %s has %+v", owner, given, who, s)
		}
		for i, n := range after.Nodes { // and no other node changes
			old := before.Nodes[i]
			if n.ID != speaker(before) && n.ID != speaker(after) && cmp.Diff(old, n) != "" {
				t.Fatalf("the plan of %s %s changed (-before +after):\n%s", n.Role, n.ID, cmp.Diff(old, n))
			}
		}
	})
}

// The order of the addresses of one connection point alone counts: the first is taken.
func TestTheOrderOfServersPointsAndManifestsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawVolumes(t)
		want := Make(in)
		tp := *in.Topology
		tp.Servers = slices.Clone(rapid.Permutation(tp.Servers).Draw(t, "servers"))
		for i := range tp.Servers {
			tp.Servers[i].ConnectionPoints = rapid.Permutation(tp.Servers[i].ConnectionPoints).Draw(t, "points")
		}
		in.Topology = &tp
		c := in.Params.Cluster
		c.PersistentVolumes = rapid.Permutation(c.PersistentVolumes).Draw(t, "manifests")
		for path, f := range in.Files {
			f.Manifests = rapid.Permutation(f.Manifests).Draw(t, "objects")
			in.Files[path] = f
		}
		if diff := cmp.Diff(want, Make(in), cmpopts.IgnoreFields(PersistentVolume{}, "At")); diff != "" {
			t.Fatalf("the plan changed (-before +after):\n%s", diff)
		}
	})
}
