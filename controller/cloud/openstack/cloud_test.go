package openstack

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
)

const (
	stackID  = "35dc4b0e-9e42-4d9f-a14d-c80f6354ff8b"
	serverID = "52157dd6-2c60-430c-8392-6e0cf1c009cd"
)

// connect is the cloud by the entry of its clouds file, with short pauses.
func connect(t *testing.T, fake *openstacktest.Cloud, change ...func(*Options)) *Cloud {
	t.Helper()
	o := Options{CloudsFile: fake.CloudsFile(t), Cloud: "fake", Timeout: 10 * time.Second, Log: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&o)
	}
	clouds, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	cloud, err := clouds.For(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	cloud.transport.pause = time.Millisecond
	t.Cleanup(cloud.transport.base.CloseIdleConnections)
	return cloud
}

func wantCalls(t *testing.T, fake *openstacktest.Cloud, want map[string]int) {
	t.Helper()
	if diff := cmp.Diff(want, fake.Calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	fake.Forget()
}

func TestWhatIsThereIsRead(t *testing.T) {
	fake := openstacktest.Start(t)
	fake.Put(
		openstacktest.Stack{ID: stackID, Name: "one", Status: "CREATE_FAILED", Reason: "no room", Resources: []openstacktest.Resource{
			{Name: "group", Type: "OS::Heat::AutoScalingGroup", PhysicalID: "g", Nested: []openstacktest.Resource{
				{Name: "vm", Type: "OS::Nova::Server", PhysicalID: serverID, Status: "CREATE_FAILED"},
				{Name: "old", Type: "OS::Nova::Server", PhysicalID: "gone", Status: "DELETE_COMPLETE"}}}}},
		openstacktest.Server{ID: serverID, Name: "vm", Status: "BUILD", Zone: "az1",
			Addresses: map[string][]string{"b": {"10.0.0.2"}, "a": {"fd00::1", "10.0.0.1"}}},
		openstacktest.Port{ID: "p", Name: "cp", DeviceID: serverID, Addresses: []string{"10.0.0.2"}},
		openstacktest.FloatingIP{ID: "f", Address: "203.0.113.5", PortID: "p", Fixed: "10.0.0.2"},
		openstacktest.FloatingIP{ID: "unused", Address: "203.0.113.6"},
		openstacktest.Volume{ID: "v", Name: "data", SizeGiB: 2, AttachedTo: []string{serverID}},
	)
	cloud, ctx := connect(t, fake), t.Context()
	a := netip.MustParseAddr
	stack, err := cloud.Stack(ctx, "one")
	check(t, stack, err, Stack{ID: stackID, Name: "one", Status: "CREATE_FAILED", StatusReason: "no room"})
	byID, err := cloud.Stack(ctx, stackID)
	check(t, byID, err, stack)
	resources, err := cloud.Resources(ctx, stack)
	check(t, resources, err, []Resource{
		{Name: "group", Type: "OS::Heat::AutoScalingGroup", PhysicalID: "g", Status: "CREATE_COMPLETE", StackID: stackID},
		{Name: "vm", Type: "OS::Nova::Server", PhysicalID: serverID, Status: "CREATE_FAILED", StackID: "g"}})
	owns, err := cloud.Owns(ctx, stack, serverID)
	check(t, owns, err, true)
	owns, err = cloud.Owns(ctx, stack, "another")
	check(t, owns, err, false)
	want := Server{ID: serverID, Name: "vm", Status: "BUILD", ProjectID: openstacktest.ProjectID, AvailabilityZone: "az1",
		Addresses: []netip.Addr{a("fd00::1"), a("10.0.0.1"), a("10.0.0.2")}}
	servers, err := cloud.Servers(ctx)
	check(t, servers, err, []Server{want})
	server, err := cloud.Server(ctx, serverID)
	check(t, server, err, want)
	ports, err := cloud.Ports(ctx)
	check(t, ports, err, []Port{{ID: "p", Name: "cp", DeviceID: serverID, Addresses: []netip.Addr{a("10.0.0.2")}}})
	floating, err := cloud.FloatingIPs(ctx)
	check(t, floating, err, []FloatingIP{{ID: "f", Address: a("203.0.113.5"), PortID: "p", Fixed: a("10.0.0.2")}, {ID: "unused", Address: a("203.0.113.6")}})
	volumes, err := cloud.Volumes(ctx)
	check(t, volumes, err, []Volume{{ID: "v", Name: "data", Status: "in-use", SizeGiB: 2, AttachedTo: []string{serverID}}})
	wantCalls(t, fake, map[string]int{openstacktest.Login: 1, openstacktest.Stacks: 2, openstacktest.Resources: 3, openstacktest.Servers: 1,
		openstacktest.ServerByID: 1, openstacktest.Ports: 1, openstacktest.FloatingIPs: 1, openstacktest.Volumes: 1})
}

func check[T any](t *testing.T, got T, err error, want T) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An administrator is shown everybody's stacks, and has those of one project.
func TestAStackOfAnotherProjectIsNotThere(t *testing.T) {
	fake := openstacktest.Start(t)
	fake.Put(openstacktest.Stack{ID: serverID, Name: "one", Project: "6259c3c90ea2412284b0a5c540fd8749"})
	cloud := connect(t, fake)
	for _, name := range []string{"one", serverID} {
		if _, err := cloud.Stack(t.Context(), name); !IsNotFound(err) {
			t.Errorf("%s: err %v", name, err)
		}
	}
	fake.Put(openstacktest.Stack{ID: stackID, Name: "one"})
	if s, err := cloud.Stack(t.Context(), "one"); err != nil || s.ID != stackID {
		t.Errorf("%v, err %v", s, err)
	}
}

// Nova forbids to see a server of another project, which is not a right that is missing.
func TestAServerOfAnotherProjectIsNotThere(t *testing.T) {
	fake := openstacktest.Start(t)
	fake.Put(openstacktest.Server{ID: serverID, Project: "of others"})
	cloud := connect(t, fake)
	if _, err := cloud.Server(t.Context(), serverID); !IsNotFound(err) || IsForbidden(err) || !strings.Contains(err.Error(), "another project") {
		t.Errorf("err %v", err)
	}
	if err := cloud.SetMetadata(t.Context(), serverID, "ours", "1"); !IsNotFound(err) {
		t.Errorf("writing its metadata: %v", err)
	}
	fake.Deny(openstacktest.ServerByID)
	if _, err := cloud.Server(t.Context(), serverID); !IsForbidden(err) || IsNotFound(err) {
		t.Errorf("without an access rule: %v", err)
	}
}

func TestAnItemOfMetadataIsWrittenAndRemoved(t *testing.T) {
	fake := openstacktest.Start(t)
	fake.Put(openstacktest.Server{ID: serverID, Metadata: map[string]string{"theirs": "stays"}})
	cloud, ctx := connect(t, fake), t.Context()
	if err := cloud.SetMetadata(ctx, serverID, "ours", "1"); err != nil {
		t.Error(err)
	}
	if got := fake.Metadata(serverID); !maps.Equal(got, map[string]string{"theirs": "stays", "ours": "1"}) {
		t.Errorf("metadata %v", got)
	}
	for range 2 { // what is gone already is no error
		if err := cloud.DeleteMetadata(ctx, serverID, "ours"); err != nil {
			t.Error(err)
		}
	}
	if got := fake.Metadata(serverID); !maps.Equal(got, map[string]string{"theirs": "stays"}) {
		t.Errorf("metadata %v", got)
	}
	if err := cloud.SetMetadata(ctx, stackID, "ours", "1"); !IsNotFound(err) {
		t.Errorf("err %v, want that there is no such server", err)
	}
	for _, id := range []string{"", "..", "../os-keypairs", "a/b", "a?b", "%2e%2e"} {
		fake.Forget()
		if err := cloud.SetMetadata(ctx, id, "ours", "1"); err == nil || IsUnavailable(err) || len(fake.Calls()) > 0 {
			t.Errorf("id %q: err %v after calls %v, want a refusal without any", id, err, fake.Calls())
		}
	}
}

func TestListsAreReadToTheirEndAtTheEndpointOnly(t *testing.T) {
	fake := openstacktest.Start(t)
	fake.PageSize = 3
	for i := range 10 {
		id := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		fake.Put(openstacktest.Server{ID: id}, openstacktest.Port{ID: id}, openstacktest.Volume{ID: id})
	}
	cloud := connect(t, fake)
	servers, err := cloud.Servers(t.Context())
	if err != nil || len(servers) != 10 || servers[9].ID != "00000000-0000-4000-8000-000000000009" {
		t.Errorf("%d servers, err %v", len(servers), err)
	}
	ports, err := cloud.Ports(t.Context())
	if err != nil || len(ports) != 10 {
		t.Errorf("%d ports, err %v", len(ports), err)
	}
	volumes, err := cloud.Volumes(t.Context())
	if err != nil || len(volumes) != 10 {
		t.Errorf("%d volumes, err %v", len(volumes), err)
	}
	wantCalls(t, fake, map[string]int{openstacktest.Login: 1, openstacktest.Servers: 4, openstacktest.Ports: 4, openstacktest.Volumes: 4})
}

func TestAListThatHasNoEndIsRefused(t *testing.T) {
	fake := openstacktest.Start(t)
	cloud := connect(t, fake)
	fake.Fail(openstacktest.Servers, openstacktest.Fault{Status: 200, Body: `{"servers":[{"id":"x"}],"servers_links":[{"rel":"next","href":"?marker=x"}]}`})
	if _, err := cloud.Servers(t.Context()); err == nil || !strings.Contains(err.Error(), "does not end") {
		t.Errorf("err %v", err)
	}
	if n := fake.Calls()[openstacktest.Servers]; n != maxPages {
		t.Errorf("%d calls, want %d", n, maxPages)
	}
}

func TestATokenIsSharedAndRenewedWhenItExpires(t *testing.T) {
	fake := openstacktest.Start(t)
	cloud := connect(t, fake)
	many := func() {
		t.Helper()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, err := cloud.Servers(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	many()
	wantCalls(t, fake, map[string]int{openstacktest.Login: 1, openstacktest.Servers: 8})
	fake.ExpireTokens()
	many()
	calls := fake.Calls()
	if calls[openstacktest.Login] != 1 || calls[openstacktest.Servers] < 9 || calls[openstacktest.Servers] > 16 {
		t.Errorf("calls %v, want one login, and each call that met the old token again", calls)
	}
	fake.Forget()

	// In the middle of a list that is being read.
	fake.PageSize = 1
	fake.Put(openstacktest.Server{ID: serverID}, openstacktest.Server{ID: stackID})
	once := sync.Once{}
	cloud.transport.observe = func(_, _ string, status int) { once.Do(fake.ExpireTokens) }
	if got, err := cloud.Servers(t.Context()); err != nil || len(got) != 2 {
		t.Errorf("%d servers, err %v", len(got), err)
	}
	wantCalls(t, fake, map[string]int{openstacktest.Login: 1, openstacktest.Servers: 3})
}

func TestWhatTheCredentialMayNotDoIsSaid(t *testing.T) {
	for name, order := range map[string]func(*openstacktest.Cloud){
		"no access rule": func(f *openstacktest.Cloud) { f.Deny(openstacktest.SetMetadata) },
		"no role":        func(f *openstacktest.Cloud) { f.Fail(openstacktest.SetMetadata, openstacktest.Fault{Status: 403}) },
	} {
		fake := openstacktest.Start(t)
		fake.Put(openstacktest.Server{ID: serverID})
		cloud := connect(t, fake)
		order(fake)
		err := cloud.SetMetadata(t.Context(), serverID, "ours", "1")
		if !IsForbidden(err) || IsUnavailable(err) || IsNotFound(err) || !strings.Contains(err.Error(), openstacktest.SetMetadata) {
			t.Errorf("%s: err %v", name, err)
		}
		if _, err := cloud.Server(t.Context(), serverID); err != nil {
			t.Errorf("%s: another call: %v", name, err)
		}
	}
}

// A password that is not good any more is a fault of the login, not of the call that
// found it out.
func TestARefusedLoginIsOfKeystone(t *testing.T) {
	fake := openstacktest.Start(t)
	cloud := connect(t, fake)
	for _, first := range []bool{true, false} {
		fake.Fail(openstacktest.Login, openstacktest.Fault{Status: http.StatusUnauthorized})
		_, err := cloud.Servers(t.Context())
		var e *Error
		if !errors.As(err, &e) || e.Service != "identity" || e.Status != 401 || IsForbidden(err) || IsNotFound(err) || IsUnavailable(err) {
			t.Errorf("first %v: err %v", first, err)
		}
		fake.Fail(openstacktest.Login, openstacktest.Fault{})
		if _, err := cloud.Servers(t.Context()); err != nil {
			t.Errorf("first %v: after it was fixed: %v", first, err)
		}
		fake.ExpireTokens()
	}
	if want := []string{openstacktest.Login, openstacktest.Servers}; !slices.Equal(slices.Sorted(maps.Keys(fake.Calls())), slices.Sorted(slices.Values(want))) {
		t.Errorf("calls %v", fake.Calls())
	}
}

// A full quota is a 403 too. A controller that took it for a credential without the right
// would let machines in without an identity proof.
func TestARightThatWasThereIsNotMissing(t *testing.T) {
	for name, fail := range map[string]openstacktest.Fault{"quota": {Status: 403}, "a node without the key of the token": {Status: 401}} {
		fake := openstacktest.Start(t)
		fake.Put(openstacktest.Server{ID: serverID, Name: "a"})
		cloud := connect(t, fake)
		if err := cloud.SetMetadata(t.Context(), serverID, "ours", "1"); err != nil {
			t.Fatal(err)
		}
		fake.Fail(openstacktest.SetMetadata, fail)
		err := cloud.SetMetadata(t.Context(), serverID, "ours", "2")
		if err == nil || IsForbidden(err) || !strings.Contains(err.Error(), "before ("+fmt.Sprint(fail.Status)+")") {
			t.Errorf("%s: %v; want to be told that it was allowed before", name, err)
		}
	}
}
