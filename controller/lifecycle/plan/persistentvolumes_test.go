package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

const (
	pvFile  = "Files/pv1.yaml"
	secondM = "22222222-6977-49ff-83ac-7756572ed186"
	thirdM  = "33333333-6977-49ff-83ac-7756572ed186"
)

func manifest(name string) Manifest {
	return Manifest{Name: name, Object: json.RawMessage(fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"nfs":{"path":"/volume/nfs/%s","server":"10.0.0.1"}}}`, name, name))}
}

// volumesInput is input with one manifest, all machines heard of and nothing served.
func volumesInput() Input {
	in := input()
	in.Params.Cluster.PersistentVolumes = []params.PVRegistration{{ManifestPath: pvFile, NFSServerCP: "storage_server_CP"}}
	in.Files = map[string]File{pvFile: {SHA256: "a", SizeBytes: 1, Manifests: []Manifest{manifest("pv1")}}}
	in.Nodes = map[string]Observed{storageID: {Heard: true}, masterID: {Heard: true}}
	return in
}

// serving is the input after the storage server has reported that it serves what its
// document says.
func serving(in Input) Input {
	out := Make(in)
	i := slices.IndexFunc(out.Nodes, func(n Node) bool { return n.Role == api.RoleStorage })
	seen := map[string]Observed{}
	for id, o := range in.Nodes {
		seen[id] = o
	}
	seen[out.Nodes[i].ID] = Observed{Heard: true, Serves: out.Nodes[i].Config.Digest()}
	in.Nodes = seen
	return in
}

// section is the one section of PersistentVolumes in the plan and its node, nil and "" for
// none.
func section(t interface{ Fatalf(string, ...any) }, out Output) (s *api.PersistentVolumesSection, owner string) {
	for _, n := range out.Nodes {
		if n.Config.PersistentVolumes == nil {
			continue
		}
		if s != nil {
			t.Fatalf("both %s and %s have PersistentVolumes", owner, n.ID)
		}
		s, owner = n.Config.PersistentVolumes, n.ID
	}
	return s, owner
}

// wantNoVolumes wants no section, and one reason at this master that says these things.
func wantNoVolumes(t *testing.T, out Output, id string, reason api.Reason, says ...string) {
	t.Helper()
	if s, owner := section(t, out); s != nil {
		t.Fatalf("%s has %+v, want it withheld", owner, s)
	}
	n := node(t, out, id)
	if len(n.Withheld) != 1 || n.Withheld[0].Section != "persistentVolumes" || n.Withheld[0].Reason != reason || n.Withheld[0].NodeID != id {
		t.Fatalf("withheld %+v, want one %s", n.Withheld, reason)
	}
	for _, part := range says {
		if !strings.Contains(n.Withheld[0].Message, part) {
			t.Errorf("the message %q does not say %q", n.Withheld[0].Message, part)
		}
	}
}

func TestVolumesAreRegisteredOnceTheirServerServes(t *testing.T) {
	in := volumesInput()
	wantNoVolumes(t, Make(in), masterID, api.ReasonWaitingForExports, storageID, "does not serve /volume/nfs/pv1, /volume/nfs/pv2 yet")
	in = serving(in)
	out := Make(in)
	want := &api.PersistentVolumesSection{
		State: api.PersistentVolumesPresent, Servers: []string{"10.10.0.4", "10.10.0.5"},
		Manifests: []api.Manifest{json.RawMessage(`{"metadata":{"name":"pv1"},"spec":{"nfs":{"path":"/volume/nfs/pv1","server":"10.10.0.5"}}}`)},
	}
	got, owner := section(t, out)
	if diff := cmp.Diff(want, got); diff != "" || owner != masterID {
		t.Errorf("section of %s (-want +got):\n%s", owner, diff)
	}
	if s := out.CarriedOver; !s.Registered || s.Owner != masterID || s.Served == "" {
		t.Errorf("%+v is carried over", s)
	}
	if n := node(t, out, masterID); len(n.Withheld) > 0 {
		t.Errorf("withheld %+v", n.Withheld)
	}
}

func TestOnlyTheWordOnThePresentDocumentCounts(t *testing.T) {
	for name, change := range map[string]func(*Input){
		"another document":        func(in *Input) { in.Nodes[storageID] = Observed{Heard: true, Serves: strings.Repeat("a", 64)} },
		"a server that is mute":   func(in *Input) { in.Nodes[storageID] = Observed{Serves: in.Nodes[storageID].Serves} },
		"a master's word":         func(in *Input) { in.Nodes[masterID], in.Nodes[storageID] = in.Nodes[storageID], Observed{Heard: true} },
		"another epoch":           func(in *Input) { in.Epoch++ },
		"other exports":           func(in *Input) { in.Params.Cluster.StorageServer.Exports[0].To = []string{"10.20.0.0/24"} },
		"another proxy":           func(in *Input) { in.Params.Cluster.Proxy = nil },
		"what another one served": func(in *Input) { in.CarriedOver.Served = "7/" + masterID + "/00" },
	} {
		t.Run(name, func(t *testing.T) {
			in := serving(volumesInput())
			if name == "what another one served" {
				in.Nodes[storageID] = Observed{Heard: true}
			}
			change(&in)
			wantNoVolumes(t, Make(in), masterID, api.ReasonWaitingForExports)
		})
	}
}

func TestWhatWasGrantedStaysUntilItsServerIsAnother(t *testing.T) {
	replacement := "9a3adb69-0784-43c7-833e-aab0b6ab4470"
	for name, c := range map[string]struct {
		change func(*Input)
		stays  bool
	}{
		"the exports fail":           {func(in *Input) { in.Nodes = map[string]Observed{storageID: {Heard: true}} }, true},
		"no node is heard of":        {func(in *Input) { in.Nodes = nil }, true},
		"another proxy for everyone": {func(in *Input) { in.Params.Cluster.Proxy = nil }, true},
		"another epoch":              {func(in *Input) { in.Epoch++ }, false},
		"other exports":              {func(in *Input) { in.Params.Cluster.StorageServer.Exports[0].To = []string{"10.20.0.0/24"} }, false},
		"another file system": {func(in *Input) {
			in.Volumes = map[string]Volume{volumeID: {FilesystemUUID: "0b6ab447-0000-4000-8000-000000000001"}}
		}, false},
		"another server": {func(in *Input) { in.Topology.Servers[0].ID = replacement }, false},
		"another server that serves too": {func(in *Input) {
			in.Topology.Servers[0].ID = replacement
			*in = serving(*in)
		}, true},
		"its volume is away": {func(in *Input) { in.Topology.Volumes = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := serving(volumesInput())
			in.CarriedOver = Make(in).CarriedOver
			in.Nodes[storageID] = Observed{Heard: true}
			c.change(&in)
			out := Make(in)
			if s, _ := section(t, out); (s != nil) != c.stays {
				t.Fatalf("section %+v, want it to stay: %v", s, c.stays)
			}
			if c.stays {
				return
			}
			wantNoVolumes(t, out, masterID, api.ReasonWaitingForExports)
			in = serving(in)
			if s, _ := section(t, Make(in)); s == nil && name != "its volume is away" {
				t.Error("once that is served too, it is still withheld")
			}
		})
	}
}

func TestOneMasterSpeaksForTheCluster(t *testing.T) {
	for name, c := range map[string]struct {
		before string
		heard  []string
		want   string
	}{
		"none yet":                             {"", nil, masterID},
		"the first that is heard of":           {"", []string{thirdM, secondM}, secondM},
		"the one before, though a lower is in": {secondM, []string{masterID, secondM}, secondM},
		"the one before is lost":               {masterID, []string{thirdM}, thirdM},
		"the one before comes back":            {thirdM, []string{masterID, thirdM}, thirdM},
		"all are lost":                         {secondM, nil, secondM},
		"the one before is gone":               {"44444444-6977-49ff-83ac-7756572ed186", []string{secondM}, secondM},
		"the one before is gone, all are lost": {"44444444-6977-49ff-83ac-7756572ed186", nil, masterID},
		"the one before is no master":          {storageID, []string{thirdM}, thirdM},
	} {
		t.Run(name, func(t *testing.T) {
			in := serving(volumesInput())
			for _, id := range []string{thirdM, secondM} {
				in.Topology.Servers = append(in.Topology.Servers, api.Server{ID: id, Name: "m", ConnectionPoints: []api.ConnectionPoint{{Name: "masterNode_CP1"}}})
			}
			delete(in.Nodes, masterID)
			for _, id := range c.heard {
				in.Nodes[id] = Observed{Heard: true}
			}
			in.CarriedOver.Owner = c.before
			out := Make(in)
			if _, owner := section(t, out); owner != c.want || out.CarriedOver.Owner != c.want {
				t.Errorf("%s has the section and %s is carried over as the owner, want %s", owner, out.CarriedOver.Owner, c.want)
			}
		})
	}
}

func TestTheAddressOfTheServer(t *testing.T) {
	const unresolved = "is no connection point of the storage server storage_server (" + storageID + ") with an address"
	stackCP := func(name string, addresses ...string) func(*Input) {
		return func(in *Input) {
			in.Topology.ConnectionPoints = append(in.Topology.ConnectionPoints, api.ConnectionPoint{Name: name, Addresses: addresses})
		}
	}
	serverCP := func(i int, name string, addresses ...string) func(*Input) {
		return func(in *Input) {
			s := &in.Topology.Servers[i]
			s.ConnectionPoints = append(s.ConnectionPoints, api.ConnectionPoint{Name: name, Addresses: addresses})
		}
	}
	for name, c := range map[string]struct {
		cp      string
		change  func(*Input)
		address string // "" for none
		servers []string
	}{
		"the first of its own":       {"storage_server_CP", func(*Input) {}, "10.10.0.5", []string{"10.10.0.4", "10.10.0.5"}},
		"of another one of its own":  {"second_CP", serverCP(0, "second_CP", "10.11.0.9", "10.11.0.8"), "10.11.0.9", []string{"10.10.0.4", "10.10.0.5", "10.11.0.8", "10.11.0.9"}},
		"one that moves":             {"vip_CP", stackCP("vip_CP", "10.10.0.1"), "10.10.0.1", []string{"10.10.0.1", "10.10.0.4", "10.10.0.5"}},
		"its own before the stack's": {"storage_server_CP", stackCP("storage_server_CP", "10.10.0.1"), "10.10.0.5", []string{"10.10.0.4", "10.10.0.5"}},
		"IPv6":                       {"six_CP", serverCP(0, "six_CP", "2001:db8::5"), "2001:db8::5", []string{"10.10.0.4", "10.10.0.5", "2001:db8::5"}},
		"IPv6 that moves":            {"vip_CP", stackCP("vip_CP", "2001:db8::1"), "2001:db8::1", []string{"10.10.0.4", "10.10.0.5", "2001:db8::1"}},
		"one with a floating address": {"storage_server_CP", func(in *Input) {
			in.Topology.Servers[0].ConnectionPoints[0].FloatingAddresses = []string{"203.0.113.5"}
		}, "10.10.0.5", []string{"10.10.0.4", "10.10.0.5", "203.0.113.5"}},
		"one that moves, and its floating address": {"vip_CP", func(in *Input) {
			in.Topology.ConnectionPoints = []api.ConnectionPoint{
				{Name: "vip_CP", Addresses: []string{"10.10.0.1"}, FloatingAddresses: []string{"203.0.113.1"}},
				{Name: "api_CP", Addresses: []string{"10.10.0.2"}, FloatingAddresses: []string{"203.0.113.2"}}}
		}, "10.10.0.1", []string{"10.10.0.1", "10.10.0.4", "10.10.0.5", "203.0.113.1"}},
		"of another server":  {"nfs_CP", serverCP(1, "nfs_CP", "10.10.0.7"), "", nil},
		"without an address": {"nfs_CP", serverCP(0, "nfs_CP"), "", nil},
		"of no server":       {"nfs_CP", func(*Input) {}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			in := volumesInput()
			in.Params.Cluster.PersistentVolumes[0].NFSServerCP = c.cp
			c.change(&in)
			out := Make(serving(in))
			if c.address == "" {
				wantNoVolumes(t, out, masterID, api.ReasonConnectionPointUnresolved, c.cp, unresolved)
				return
			}
			s, _ := section(t, out)
			if s == nil {
				t.Fatalf("withheld: %+v", node(t, out, masterID).Withheld)
			}
			if !slices.Equal(s.Servers, c.servers) || !strings.Contains(string(s.Manifests[0]), `"server":"`+c.address+`"`) {
				t.Errorf("servers %v, want %v; manifest %s, want the server %s", s.Servers, c.servers, s.Manifests[0], c.address)
			}
		})
	}
}

// What the API server is given is what the file has, but for the server: not a digit of
// a number and no member that is not known here is another.
func TestAManifestKeepsWhatItSays(t *testing.T) {
	const text = `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv1","annotations":{"a<b>&c":"\u00e9 and é"}},
		"spec":{"capacity":{"storage":"1Gi"},"future":[1.0,1e3,12345678901234567890,-0,0.1000],"nfs":{"path":"/volume/nfs/pv1","server":%q,"readOnly":true,"later":null}},"status":{}}`
	in := volumesInput()
	in.Files[pvFile] = File{Manifests: []Manifest{{Name: "pv1", Object: json.RawMessage(fmt.Sprintf(text, "nfs.example"))}}}
	s, _ := section(t, Make(serving(in)))
	if s == nil {
		t.Fatal("withheld")
	}
	for _, part := range []string{`[1.0,1e3,12345678901234567890,-0,0.1000]`, `"later":null`, `"readOnly":true`, `"status":{}`} {
		if !strings.Contains(string(s.Manifests[0]), part) {
			t.Errorf("%s lacks %s", s.Manifests[0], part)
		}
	}
	var got, want any
	if err := json.Unmarshal(s.Manifests[0], &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(fmt.Appendf(nil, text, "10.10.0.5"), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
}

func TestAManifestWithoutAServerGetsOne(t *testing.T) {
	in := volumesInput()
	in.Files[pvFile] = File{Manifests: []Manifest{{Name: "pv1", Object: json.RawMessage(`{"spec":{"nfs":{"path":"/p"}}}`)}}}
	if s, _ := section(t, Make(serving(in))); s == nil || string(s.Manifests[0]) != `{"spec":{"nfs":{"path":"/p","server":"10.10.0.5"}}}` {
		t.Errorf("section %+v", s)
	}
}

func TestManifestsThatCannotBeUsedAreWithheldWhole(t *testing.T) {
	second := "Files/pv2.yaml"
	for name, c := range map[string]struct {
		change func(*Input)
		says   []string
	}{
		"not uploaded": {func(in *Input) { delete(in.Files, second) }, []string{second, "has not been uploaded"}},
		"faulty":       {func(in *Input) { in.Files[second] = File{Problem: second + " is no manifest"} }, []string{second + " is no manifest"}},
		"a name twice": {func(in *Input) { in.Files[second] = File{Manifests: []Manifest{manifest("pv1")}} }, []string{`two package files register PersistentVolume "pv1"`}},
		"no spec": {func(in *Input) {
			in.Files[second] = File{Manifests: []Manifest{{Name: "x", Object: json.RawMessage(`{}`)}}}
		}, []string{second, "it has no spec"}},
		"spec is text": {func(in *Input) {
			in.Files[second] = File{Manifests: []Manifest{{Name: "x", Object: json.RawMessage(`{"spec":"x"}`)}}}
		}, []string{second, "no object at nfs"}},
		"nfs is null": {func(in *Input) {
			in.Files[second] = File{Manifests: []Manifest{{Name: "x", Object: json.RawMessage(`{"spec":{"nfs":null}}`)}}}
		}, []string{second, "no object at server"}},
		"no JSON": {func(in *Input) {
			in.Files[second] = File{Manifests: []Manifest{{Name: "x", Object: json.RawMessage(`{`)}}}
		}, []string{second, "upload it again"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := volumesInput()
			in.Params.Cluster.PersistentVolumes = append(in.Params.Cluster.PersistentVolumes, params.PVRegistration{ManifestPath: second, NFSServerCP: "storage_server_CP"})
			in.Files[second] = File{Manifests: []Manifest{manifest("pv2"), manifest("a")}}
			s, _ := section(t, Make(serving(in)))
			if s == nil || len(s.Manifests) != 3 || !strings.Contains(string(s.Manifests[0]), `"a"`) || !strings.Contains(string(s.Manifests[1]), `"pv1"`) {
				t.Fatalf("of two good files the section is %+v, want three, by name", s)
			}
			c.change(&in)
			wantNoVolumes(t, Make(serving(in)), masterID, api.ReasonFileMissing, c.says...)
		})
	}
}

func TestWithdrawnVolumesWaitForNothing(t *testing.T) {
	in := volumesInput()
	in.CarriedOver.Served = "7/x"
	in.Withdraw = true
	in.Topology.Volumes = nil // nor for a storage server that can be configured
	out := Make(in)
	s, _ := section(t, out)
	if s == nil || s.State != api.PersistentVolumesAbsent || len(s.Manifests) != 1 || !slices.Equal(s.Servers, []string{"10.10.0.4", "10.10.0.5"}) {
		t.Fatalf("section %+v, want absent, with the manifests and every address", s)
	}
	if out.CarriedOver.Served != "" || !out.CarriedOver.Registered {
		t.Errorf("%+v is carried over: the exports must be seen to be served again", out.CarriedOver)
	}
}

func TestWithoutTheirServerOrAMaster(t *testing.T) {
	in := volumesInput()
	in.Topology.Servers = in.Topology.Servers[1:]
	for _, in.Withdraw = range []bool{false, true} {
		wantNoVolumes(t, Make(in), masterID, api.ReasonTopologyIncomplete, "no storage server")
	}
	in = volumesInput()
	in.CarriedOver.Members, in.Leaving = []string{masterID}, []string{masterID}
	wantNoVolumes(t, Make(in), masterID, api.ReasonNotJoined, "no master that stays")
	in = volumesInput()
	in.Topology.Servers = in.Topology.Servers[:1]
	in.CarriedOver.Owner = masterID
	out := Make(in)
	if s, _ := section(t, out); s != nil || out.CarriedOver.Owner != "" || len(node(t, out, storageID).Withheld) > 0 {
		t.Errorf("without a master: %+v", out)
	}
}

func TestVolumesThatLeftTheParametersAreRemovedWhereSomeWereRegistered(t *testing.T) {
	in := volumesInput()
	in.Params.Cluster.PersistentVolumes = nil
	in = serving(in)
	out := Make(in)
	s, _ := section(t, out)
	if diff := cmp.Diff(CarriedOver{}, out.CarriedOver); s != nil || diff != "" {
		t.Errorf("a cluster that never had any has %+v, and this is carried over:\n%s", s, diff)
	}
	in.CarriedOver.Registered = true
	s, _ = section(t, Make(in))
	if s == nil || s.State != api.PersistentVolumesPresent || s.Manifests == nil || len(s.Manifests) != 0 || len(s.Servers) != 2 {
		t.Errorf("a cluster that had some has %+v, want an empty section", s)
	}
}

// While a storage server elsewhere takes the place of another one, clients may write through that one: a withdrawal asks for both.
func TestAWithdrawalFindsThePersistentVolumesOfTheOldServer(t *testing.T) {
	const replacement, third = "9a3adb69-0784-43c7-833e-aab0b6ab4470", "9a3adb69-0784-43c7-833e-aab0b6ab4471"
	in := volumesInput()
	in.Params.Cluster.StorageServer.KeepVolumes = true
	in = serving(in)
	in.CarriedOver = Make(in).CarriedOver
	elsewhere := func(id, address string) {
		in.Topology.Servers[0].ID, in.Topology.Servers[0].ConnectionPoints[0].Addresses = id, []string{address}
		in.CarriedOver = Make(in).CarriedOver
	}
	withdrawn := func(want ...string) {
		t.Helper()
		withdraw := in
		withdraw.Withdraw = true
		out := Make(withdraw)
		if s, _ := section(t, out); s == nil || s.State != api.PersistentVolumesAbsent || !slices.Equal(s.Servers, want) {
			t.Errorf("the section is %+v, want absent, of %v", s, want)
		}
		if diff := cmp.Diff(in.CarriedOver.RegisteredAt, out.CarriedOver.RegisteredAt); diff != "" {
			t.Errorf("a START that may be taken back changes the addresses:\n%s", diff)
		}
	}
	elsewhere(replacement, "10.10.0.77")
	withdrawn("10.10.0.4", "10.10.0.5", "10.10.0.77")
	elsewhere(third, "10.10.0.78")
	withdrawn("10.10.0.4", "10.10.0.5", "10.10.0.77", "10.10.0.78")
	in.CarriedOver.VolumeServer = third // the old one is gone
	in.CarriedOver = Make(in).CarriedOver
	withdrawn("10.10.0.4", "10.10.0.5", "10.10.0.77", "10.10.0.78")
	in = serving(in)
	in.CarriedOver = Make(in).CarriedOver
	withdrawn("10.10.0.78")
}
