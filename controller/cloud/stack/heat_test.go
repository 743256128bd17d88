package stack

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack"
	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

const stackA = "35dc4b0e-9e42-4d9f-a14d-c80f6354ff8b"

func id(kind, n int) string { return fmt.Sprintf("%08d-0000-4000-8000-%012d", kind, n) }

// heat is the source of a cloud that only its vimConnectionInfo names.
func heat(t *testing.T) Heat {
	t.Helper()
	clouds, err := openstack.New(openstack.Options{UseVIM: true, Timeout: 10 * time.Second, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return Heat{Clouds: clouds}
}

// cluster is what a stack has with so many workers, one master, a virtual IP, and a
// storage server with its volume and floating IP.
func clusterOf(workers int) []any {
	group := func(name string, kind, size int) (openstacktest.Resource, []any) {
		r := openstacktest.Resource{Name: name, Type: "OS::Heat::AutoScalingGroup", PhysicalID: id(kind, 0)}
		var things []any
		for i := 1; i <= size; i++ {
			server, port, address := id(kind+1, i), id(kind+2, i), fmt.Sprintf("10.%d.%d.%d", kind, i/250, i%250+1)
			things = append(things, openstacktest.Server{ID: server, Name: name}, // of one name, as Heat can be told to
				openstacktest.Port{ID: port, DeviceID: server, Addresses: []string{address}})
			r.Nested = append(r.Nested, openstacktest.Resource{Name: fmt.Sprint(i), Type: "node.yaml", PhysicalID: id(kind+3, i), Nested: []openstacktest.Resource{
				{Name: "Node", Type: "OS::Nova::Server", PhysicalID: server}, {Name: "Node_CP1", Type: "OS::Neutron::Port", PhysicalID: port}}})
		}
		return r, things
	}
	masters, m := group("master_instance", 10, 1)
	all, w := group("worker_instance", 20, workers)
	stack := openstacktest.Stack{ID: stackA, Name: "vnf-1", Status: "CREATE_COMPLETE", Reason: "done", Resources: []openstacktest.Resource{masters, all,
		{Name: "vip_CP", Type: "OS::Neutron::Port", PhysicalID: id(1, 1)},
		{Name: "storage_server", Type: "OS::Nova::Server", PhysicalID: serverA},
		{Name: "storage_server_CP", Type: "OS::Neutron::Port", PhysicalID: id(1, 2)},
		{Name: "storage_server_FIP", Type: "OS::Neutron::FloatingIP", PhysicalID: id(1, 3)},
		{Name: "storage_server_volume", Type: "OS::Cinder::Volume", PhysicalID: volumeA}}}
	things := []any{stack,
		openstacktest.Server{ID: serverA, Name: "storage_server", Zone: "az2"}, openstacktest.Server{ID: serverB, Name: "of no stack here"},
		openstacktest.Port{ID: id(1, 1), Addresses: []string{"10.0.0.9"}},
		openstacktest.Port{ID: id(1, 2), DeviceID: serverA, Addresses: []string{"10.0.0.5", "FD00:0::5"}},
		openstacktest.FloatingIP{ID: id(1, 3), Address: "203.0.113.5", PortID: id(1, 2), Fixed: "10.0.0.5"},
		openstacktest.Volume{ID: volumeA, SizeGiB: 2, AttachedTo: []string{serverA}}, openstacktest.Volume{ID: volumeB, SizeGiB: 7, AttachedTo: []string{serverA}}}
	return append(append(things, m...), w...)
}

func storageServer() api.Server {
	return api.Server{ID: serverA, Name: "storage_server", VduID: "storage_server", AvailabilityZone: "az2", VolumeIds: []string{volumeA},
		ConnectionPoints: []api.ConnectionPoint{{Name: "storage_server_CP", Addresses: []string{"10.0.0.5", "fd00::5"}, FloatingAddresses: []string{"203.0.113.5"}}, floatingPoint}}
}

// floatingPoint is the floating IP of the storage server.
var floatingPoint = api.ConnectionPoint{Name: "storage_server_FIP", Addresses: []string{"10.0.0.5"}, FloatingAddresses: []string{"203.0.113.5"}}

func TestTheTopologyOfAStack(t *testing.T) {
	fake := openstacktest.Start(t)
	fake.Put(clusterOf(1)...)
	node := func(group string, kind int) api.Server {
		return api.Server{ID: id(kind+1, 1), Name: group, VduID: "Node", AspectID: group, MemberStackID: id(kind+3, 1), AvailabilityZone: "nova",
			ConnectionPoints: []api.ConnectionPoint{{Name: "Node_CP1", Addresses: []string{fmt.Sprintf("10.%d.0.2", kind)}, MemberStackID: id(kind+3, 1)}}}
	}
	want := &api.Topology{StackID: stackA, StackStatus: "CREATE_COMPLETE", StackStatusReason: "done",
		Servers:          []api.Server{node("master_instance", 10), storageServer(), node("worker_instance", 20)},
		ConnectionPoints: []api.ConnectionPoint{{Name: "vip_CP", Addresses: []string{"10.0.0.9"}}},
		Volumes:          []api.TopologyVolume{{ResourceID: "storage_server_volume", ID: volumeA, SizeBytes: 2 << 30}}}
	for _, name := range []string{stackA, "vnf-1"} {
		got, err := heat(t).Resolve(t.Context(), Request{StackID: name, VIM: fake.VIM()})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("by %s (-want +got):\n%s", name, diff)
		}
		if faults := topology.Validate(got, fault.Root); len(faults) > 0 {
			t.Errorf("what is read would be refused if it were sent: %v", faults)
		}
	}
}

// ssh_cp_name of Tacker's sample templates is a floating IP.
func TestAFloatingIPIsAConnectionPointOfTheServerThatHasItsPort(t *testing.T) {
	for name, c := range map[string]struct {
		resource, address, port, fixed string
		of                             string // the server that gets the role
		loose                          bool
	}{
		"of a port of the template":            {id(2, 1), "203.0.113.6", id(1, 2), "10.0.0.5", serverA, false},
		"of a port that Nova made":             {id(2, 1), "203.0.113.6", id(1, 4), "10.0.0.6", serverA, false},
		"of a virtual IP":                      {id(2, 1), "203.0.113.6", id(1, 1), "10.0.0.9", "", true},
		"that no port has":                     {id(2, 1), "203.0.113.6", "", "", "", false},
		"of a server of another stack":         {id(2, 1), "203.0.113.6", id(1, 5), "10.0.0.7", "", true},
		"that Heat names and Neutron does not": {id(2, 2), "203.0.113.6", id(1, 2), "10.0.0.5", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			fake := openstacktest.Start(t)
			fake.Put(openstacktest.Stack{ID: stackA, Name: "vnf-1", Status: "CREATE_COMPLETE", Resources: []openstacktest.Resource{
				{Name: "storage_server", Type: "OS::Nova::Server", PhysicalID: serverA}, {Name: "ssh_FIP", Type: "OS::Neutron::FloatingIP", PhysicalID: c.resource}}},
				openstacktest.Server{ID: serverA, Name: "storage_server"}, openstacktest.Server{ID: serverB, Name: "of no stack here"},
				openstacktest.Port{ID: id(1, 1), Addresses: []string{"10.0.0.9"}},
				openstacktest.Port{ID: id(1, 2), DeviceID: serverA, Addresses: []string{"10.0.0.5"}},
				openstacktest.Port{ID: id(1, 4), DeviceID: serverA, Addresses: []string{"10.0.0.6"}},
				openstacktest.Port{ID: id(1, 5), DeviceID: serverB, Addresses: []string{"10.0.0.7"}},
				openstacktest.FloatingIP{ID: id(2, 1), Address: c.address, PortID: c.port, Fixed: c.fixed})
			got, err := heat(t).Resolve(t.Context(), Request{StackID: stackA, VIM: fake.VIM()})
			if err != nil {
				t.Fatal(err)
			}
			roles := topology.Assign(&params.Params{Cluster: &params.Cluster{StorageServer: &params.StorageServer{SSHCPName: "ssh_FIP"}}}, got, fault.Root)
			if storage := strings.Join(roles.Servers(api.RoleStorage), " "); storage != c.of {
				t.Errorf("the storage server is %q, want %q; the topology is %+v", storage, c.of, got)
			}
			point := []api.ConnectionPoint{{Name: "ssh_FIP", Addresses: []string{c.fixed}, FloatingAddresses: []string{c.address}}}
			points := got.Servers[0].ConnectionPoints
			if c.loose {
				points = got.ConnectionPoints
			}
			if diff := cmp.Diff(point, points); (c.of != "" || c.loose) && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !c.loose && len(got.ConnectionPoints) > 0 {
				t.Errorf("the stack has the connection points %+v", got.ConnectionPoints)
			}
		})
	}
}

// What a real OpenStack answered, as a golden file.
func TestTheTopologyOfARecordedStack(t *testing.T) {
	vim := fmt.Sprintf(`[{"vimType":"openstack","accessInfo":{"authUrl":%q,"username":"tenant","password":"p","project":"tenant"}}]`, openstacktest.Replay(t))
	got, err := heat(t).Resolve(t.Context(), Request{StackID: "cloud-one", VIM: json.RawMessage(vim)})
	if err != nil {
		t.Fatal(err)
	}
	golden, err := os.ReadFile(filepath.Join("testdata", "recorded.json"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(golden), string(text)+"\n"); diff != "" {
		t.Errorf("(-golden +got):\n%s", diff)
	}
}

// Nova's list leaves out what is in a cell that is away. Who believes it takes the
// identities of live nodes away.
func TestServersThatNovasListLacks(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*openstacktest.Cloud)
		servers int
		failure string
	}{
		"it is there": {func(f *openstacktest.Cloud) {
			f.Put(openstacktest.Server{ID: id(21, 1), Name: "worker_instance", Unlisted: true})
		}, 3, ""},
		"it is gone": {func(f *openstacktest.Cloud) { f.Remove(id(21, 1)) }, 2, ""},
		"it is put aside, to be deleted later": {func(f *openstacktest.Cloud) {
			f.Put(openstacktest.Server{ID: id(21, 1), Name: "worker_instance", Status: "SOFT_DELETED", Unlisted: true})
		}, 2, ""},
		"Nova cannot say": {func(f *openstacktest.Cloud) {
			f.Put(openstacktest.Server{ID: id(21, 1), Name: "worker_instance", Unlisted: true})
			f.Fail(openstacktest.ServerByID, openstacktest.Fault{Status: 500})
		}, 0, openstacktest.ServerByID},
	} {
		t.Run(name, func(t *testing.T) {
			fake := openstacktest.Start(t)
			fake.Put(clusterOf(1)...)
			c.prepare(fake)
			got, err := heat(t).Resolve(t.Context(), Request{StackID: stackA, VIM: fake.VIM()})
			switch {
			case c.failure != "":
				wantProblem(t, err, api.ProblemCloudError, c.failure)
			case err != nil || len(got.Servers) != c.servers:
				t.Errorf("%+v, %v; want %d servers", got, err, c.servers)
			}
			if n := fake.Calls()[openstacktest.ServerByID]; n != 1 {
				t.Errorf("Nova was asked %d times for a server, want once", n)
			}
		})
	}
}

// Only Heat knows whether there is a stack.
func TestA404OfAnotherServiceIsNoStackThatIsGone(t *testing.T) {
	for _, call := range []string{openstacktest.Servers, openstacktest.Ports, openstacktest.FloatingIPs, openstacktest.Volumes} {
		fake := openstacktest.Start(t)
		fake.Put(clusterOf(1)...)
		fake.Fail(call, openstacktest.Fault{Status: 404})
		_, err := heat(t).Resolve(t.Context(), Request{StackID: stackA, VIM: fake.VIM()})
		wantProblem(t, err, api.ProblemCloudError, call)
	}
}

// An operator may give a server a floating IP that no template has.
func TestAFloatingIPOfNoStackCounts(t *testing.T) {
	fake := openstacktest.Start(t)
	fake.Put(openstacktest.Stack{ID: stackA, Name: "vnf-1", Status: "CREATE_COMPLETE", Resources: []openstacktest.Resource{
		{Name: "storage_server", Type: "OS::Nova::Server", PhysicalID: serverA}, {Name: "storage_server_CP", Type: "OS::Neutron::Port", PhysicalID: id(1, 2)}}},
		openstacktest.Server{ID: serverA, Name: "storage_server"},
		openstacktest.Port{ID: id(1, 2), Name: "storage_server_CP", DeviceID: serverA, Addresses: []string{"10.0.0.5"}},
		openstacktest.FloatingIP{ID: id(1, 3), Address: "203.0.113.5", PortID: id(1, 2), Fixed: "10.0.0.5"},
		openstacktest.FloatingIP{ID: id(1, 4), Address: "203.0.113.6", PortID: id(1, 9), Fixed: "10.0.0.6"})
	resolve := func() *api.Topology {
		got, err := heat(t).Resolve(t.Context(), Request{StackID: stackA, VIM: fake.VIM()})
		if err != nil || len(got.Servers) != 1 || len(got.Servers[0].ConnectionPoints) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		return got
	}
	if p := resolve().Servers[0].ConnectionPoints[0]; !slices.Equal(p.FloatingAddresses, []string{"203.0.113.5"}) {
		t.Errorf("the floating addresses are %v", p.FloatingAddresses)
	}
	// A Neutron without routers has no floating IPs, and says so with 404.
	fake.Fail(openstacktest.FloatingIPs, openstacktest.Fault{Status: 404})
	if p := resolve().Servers[0].ConnectionPoints[0]; len(p.FloatingAddresses) != 0 || len(p.Addresses) != 1 {
		t.Errorf("without routers the point is %+v", p)
	}
	fake.Fail(openstacktest.FloatingIPs, openstacktest.Fault{Status: 403})
	_, err := heat(t).Resolve(t.Context(), Request{StackID: stackA, VIM: fake.VIM()})
	wantProblem(t, err, api.ProblemCloudError, openstacktest.FloatingIPs)
}

func wantProblem(t *testing.T, err error, kind, says string) {
	t.Helper()
	var problem *api.Problem
	if !errors.As(err, &problem) || problem.Type != kind || !strings.Contains(problem.Detail, says) {
		t.Errorf("%v; want the problem %s that says %s", err, kind, says)
	}
}

func TestTheSameStackGivesTheSameBytes(t *testing.T) {
	things := clusterOf(7)
	var first string
	for range 5 {
		shuffle(things)
		fake := openstacktest.Start(t)
		for i, thing := range things {
			if s, ok := thing.(openstacktest.Stack); ok {
				shuffle(s.Resources)
				for _, r := range s.Resources {
					shuffle(r.Nested)
				}
				things[i] = s
			}
		}
		fake.Put(things...)
		got, err := heat(t).Resolve(t.Context(), Request{StackID: stackA, VIM: fake.VIM()})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(text)
		}
		if string(text) != first {
			t.Errorf("another time:\n%s\n%s", first, text)
		}
	}
}

func shuffle[T any](list []T) {
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

// The cost that Heat's comment states.
func TestWhatAnObservationCosts(t *testing.T) {
	fake := openstacktest.Start(t)
	fake.Put(clusterOf(200)...)
	source := heat(t)
	six := map[string]int{openstacktest.Stacks: 1, openstacktest.Resources: 1, openstacktest.Servers: 1,
		openstacktest.Ports: 1, openstacktest.FloatingIPs: 1, openstacktest.Volumes: 1}
	observes := func(what string, want map[string]int) {
		t.Helper()
		began := time.Now()
		got, err := source.Resolve(t.Context(), Request{StackID: stackA, VIM: fake.VIM()})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d servers in %v", what, len(got.Servers), time.Since(began))
		if diff := cmp.Diff(want, fake.Calls()); diff != "" {
			t.Errorf("%s: calls (-want +got):\n%s", what, diff)
		}
		fake.Forget()
	}
	with := func(change map[string]int) map[string]int {
		all := map[string]int{}
		for _, m := range []map[string]int{six, change} {
			for call, n := range m {
				all[call] = n
			}
		}
		return all
	}
	observes("the first", with(map[string]int{openstacktest.Login: 1}))
	observes("the second", six)
	fake.ExpireTokens()
	observes("with a token that has expired", with(map[string]int{openstacktest.Login: 1, openstacktest.Stacks: 2}))
	fake.PageSize = 100
	observes("in pages of a hundred", with(map[string]int{openstacktest.Servers: 3, openstacktest.Ports: 3}))
	fake.Put(openstacktest.Stack{ID: stackA, Name: "vnf-1", Status: "CREATE_COMPLETE", Resources: []openstacktest.Resource{
		{Name: "storage_server", Type: "OS::Nova::Server", PhysicalID: serverA}, {Name: "storage_server_CP", Type: "OS::Neutron::Port", PhysicalID: id(1, 2)}}})
	observes("without volumes", map[string]int{openstacktest.Stacks: 1, openstacktest.Resources: 1, openstacktest.Servers: 3, openstacktest.Ports: 3, openstacktest.FloatingIPs: 1})
	fake.Put(openstacktest.Stack{ID: stackA, Name: "vnf-1", Status: "CREATE_IN_PROGRESS", Resources: []openstacktest.Resource{
		{Name: "group", Type: "OS::Heat::AutoScalingGroup", Status: "CREATE_IN_PROGRESS"}, {Name: "vm", Type: "OS::Nova::Server", Status: "INIT_COMPLETE"}}})
	observes("nothing is made yet", map[string]int{openstacktest.Stacks: 1, openstacktest.Resources: 1})
}

func TestWhatIsWrongWithTheStackOrTheCloud(t *testing.T) {
	problem := func(t *testing.T, err error, kind string, parts ...string) {
		t.Helper()
		var p *api.Problem
		if !errors.As(err, &p) || p.Type != kind {
			t.Fatalf("err %v, want a %s", err, kind)
		}
		for _, part := range append(parts, `the cloud at 127.0.0.1:`) {
			if !strings.Contains(p.Detail, part) {
				t.Errorf("no %q in: %s", part, p.Detail)
			}
		}
		if strings.Contains(err.Error(), openstacktest.Password) {
			t.Errorf("the problem contains the password: %v", err)
		}
	}
	setUp := func(t *testing.T) (*openstacktest.Cloud, func(Request) (*api.Topology, error)) {
		fake, source := openstacktest.Start(t), heat(t)
		fake.Put(clusterOf(1)...)
		return fake, func(r Request) (*api.Topology, error) {
			r.VIM = fake.VIM()
			return source.Resolve(t.Context(), r)
		}
	}
	t.Run("in progress or failed", func(t *testing.T) {
		fake, resolve := setUp(t)
		fake.Put(openstacktest.Stack{ID: stackA, Name: "vnf-1", Status: "CREATE_FAILED", Reason: "No valid host was found"})
		got, err := resolve(Request{StackID: "vnf-1"})
		if err != nil || got.StackStatus != "CREATE_FAILED" || got.StackStatusReason != "No valid host was found" || got.StackID != stackA || got.Servers == nil {
			t.Errorf("%+v, err %v", got, err)
		}
	})
	t.Run("gone", func(t *testing.T) {
		fake, resolve := setUp(t)
		fake.Remove(stackA)
		_, err := resolve(Request{StackID: stackA})
		problem(t, err, api.ProblemStackGone, stackA, "give the stackId")
	})
	t.Run("gone in the middle of the observation", func(t *testing.T) {
		fake, resolve := setUp(t)
		fake.Fail(openstacktest.Resources, openstacktest.Fault{Status: 404})
		_, err := resolve(Request{StackID: stackA})
		problem(t, err, api.ProblemStackGone, stackA)
	})
	for call, service := range map[string]string{openstacktest.Stacks: "orchestration", openstacktest.Resources: "orchestration", openstacktest.Servers: "compute",
		openstacktest.Ports: "network", openstacktest.FloatingIPs: "network", openstacktest.Volumes: "(volumev3)"} {
		t.Run("denied: "+call, func(t *testing.T) {
			fake, resolve := setUp(t)
			fake.Deny(call)
			_, err := resolve(Request{StackID: stackA})
			problem(t, err, api.ProblemCloudError, call, service, "access rule")
		})
	}
	t.Run("not to be had", func(t *testing.T) {
		fake, resolve := setUp(t)
		fake.Fail(openstacktest.Servers, openstacktest.Fault{Status: 500})
		_, err := resolve(Request{StackID: stackA})
		problem(t, err, api.ProblemCloudError, openstacktest.Servers, "500", "ask again later")
	})
	t.Run("an id that is none", func(t *testing.T) {
		fake, resolve := setUp(t)
		fake.Put(openstacktest.Stack{ID: stackA, Name: "vnf-1", Resources: []openstacktest.Resource{{Name: "data", Type: "OS::Cinder::Volume", PhysicalID: "../etc"}}},
			openstacktest.Volume{ID: "../etc", SizeGiB: 1})
		_, err := resolve(Request{StackID: stackA})
		problem(t, err, api.ProblemCloudError, "cannot be used")
		if !strings.Contains(err.Error(), "/topology/volumes/0/id") {
			t.Errorf("err %v does not say where", err)
		}
	})
	t.Run("the password is not good", func(t *testing.T) {
		fake, resolve := setUp(t)
		fake.Fail(openstacktest.Login, openstacktest.Fault{Status: 401})
		_, err := resolve(Request{StackID: stackA})
		problem(t, err, api.ProblemCloudError, "Keystone does not accept the credential (401)")
	})
	t.Run("a Keystone that is not there is no stack that is gone", func(t *testing.T) {
		fake, resolve := setUp(t)
		fake.Fail(openstacktest.Login, openstacktest.Fault{Status: 404})
		_, err := resolve(Request{StackID: stackA})
		problem(t, err, api.ProblemCloudError, "no Keystone at this URL")
	})
}

func TestWhereNoCloudIsAskedTheRequestCounts(t *testing.T) {
	fake, source := openstacktest.Start(t), heat(t)
	given := &api.Topology{Servers: []api.Server{{ID: serverA, Name: "storage_server"}}}
	for name, r := range map[string]Request{
		"no stack": {VIM: fake.VIM(), Inline: given},
		"no cloud": {StackID: stackA, Inline: given},
	} {
		got, err := source.Resolve(t.Context(), r)
		want, _ := Inline{}.Resolve(t.Context(), r)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: err %v (-want +got):\n%s", name, err, diff)
		}
	}
	if _, err := source.Resolve(t.Context(), Request{StackID: stackA}); !errors.Is(err, ErrNotGiven) {
		t.Errorf("neither: %v", err)
	}
	if calls := fake.Calls(); len(calls) > 0 {
		t.Errorf("calls %v", calls)
	}
	var p *api.Problem
	_, err := source.Resolve(t.Context(), Request{VIM: json.RawMessage(`[{"vimType":"openstack","accessInfo":{"username":"u"}}]`), Inline: given})
	if !errors.As(err, &p) || p.Type != api.ProblemInvalid {
		t.Errorf("a vimConnectionInfo with faults: %v", err)
	}
}
