package openstack

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
)

// What a real OpenStack answered means what it should.
func TestRecordedAnswersAreUnderstood(t *testing.T) {
	const worker, nothing = "4ccb87d7-a28c-409b-bb6e-4209a0509b84", "00000000-0000-4000-8000-000000000000"
	cloud, err := newCloud(credential{AuthURL: openstacktest.Replay(t), User: "tenant", Password: "p", UserDomain: "Default", Project: "tenant", ProjectDomainName: "Default"},
		"the cloud", Options{Timeout: 10 * time.Second, Log: slog.New(slog.DiscardHandler), Observe: func(string, string, int) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cloud.transport.base.CloseIdleConnections)
	ctx := t.Context()
	stack, err := cloud.Stack(ctx, "cloud-one")
	check(t, stack, err, Stack{ID: stackID, Name: "cloud-one", Status: "CREATE_COMPLETE", StatusReason: "Stack CREATE completed successfully"})
	failed, err := cloud.Stack(ctx, "c9c6fb7b-74ee-4511-8c50-0e928dc776b4")
	check(t, failed, err, Stack{ID: "c9c6fb7b-74ee-4511-8c50-0e928dc776b4", Name: "cloud-fail", Status: "CREATE_FAILED",
		StatusReason: "Resource CREATE failed: ValueError: resources.broken: Test Resource failed broken"})
	if _, err := cloud.Stack(ctx, nothing); !IsNotFound(err) {
		t.Errorf("a stack that is not there: %v", err)
	}
	resources, err := cloud.Resources(ctx, stack)
	if err != nil || len(resources) != 20 {
		t.Errorf("%d resources, err %v", len(resources), err)
	}
	for _, r := range resources {
		if len(r.StackID) != 36 || r.Name == "" || r.Type == "" || r.PhysicalID == "" || r.Status != "CREATE_COMPLETE" {
			t.Errorf("resource %+v", r)
		}
	}
	if _, err := cloud.Resources(ctx, Stack{Name: "cloud-one", ID: nothing}); !IsNotFound(err) {
		t.Errorf("resources of a stack that is not there: %v", err)
	}
	owns, err := cloud.Owns(ctx, stack, worker)
	check(t, owns, err, true)
	owns, err = cloud.Owns(ctx, stack, nothing)
	check(t, owns, err, false)
	server, err := cloud.Server(ctx, serverID)
	if err != nil || server.Name != "storage_server" || server.Status != "ACTIVE" || server.ProjectID != openstacktest.ProjectID ||
		server.AvailabilityZone != "nova" || server.Hypervisor != "" || len(server.Addresses) != 2 {
		t.Errorf("server %+v, err %v", server, err)
	}
	if _, err := cloud.Server(ctx, nothing); !IsNotFound(err) || strings.Contains(err.Error(), "could not be found") {
		t.Errorf("a server that is not there: %v", err)
	}
	if err := cloud.SetMetadata(ctx, serverID, "cl_probe", "x"); err != nil {
		t.Error(err)
	}
	if err := cloud.SetMetadata(ctx, nothing, "cl_probe", "x"); !IsNotFound(err) {
		t.Errorf("metadata of a server that is not there: %v", err)
	}
	if err := cloud.DeleteMetadata(ctx, serverID, "cl_probe"); err != nil {
		t.Error(err)
	}
	volumes, err := cloud.Volumes(ctx)
	check(t, volumes, err, []Volume{{ID: "2915d7da-9253-4c38-868f-46faa8a44f94", Name: "cloud-one-storage_server_volume-3nsdk5h64akp",
		Status: "in-use", SizeGiB: 2, AttachedTo: []string{serverID}}})
}
