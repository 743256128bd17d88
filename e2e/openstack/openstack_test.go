package openstack_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/openstack"
	"github.com/nodehitch/nodehitch/e2e/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/e2e/results"
)

const storageStack = `
heat_template_version: 2021-04-16
parameters:
  greeting: {type: string}
resources:
  storage_server_CP: {type: OS::Neutron::Port, properties: {network: lab}}
  storage_server_volume: {type: OS::Cinder::Volume, properties: {size: 1}}
  storage_server:
    type: OS::Nova::Server
    properties:
      image: lab
      flavor: lab.small
      networks: [{port: {get_resource: storage_server_CP}}]
      user_data_format: RAW
      user_data:
        str_replace:
          template: |
            #cloud-config
            write_files: [{path: /etc/greeting, content: GREETING}]
          params: {GREETING: {get_param: greeting}}
  storage_server_volume_attachment:
    type: OS::Cinder::VolumeAttachment
    properties:
      instance_uuid: {get_resource: storage_server}
      volume_id: {get_resource: storage_server_volume}
`

// TestStackAndMachine: a tenant's stack is created, and a machine of the lab that has the
// address of its server finds that server's user_data and metadata where every machine of
// OpenStack finds its own.
func TestStackAndMachine(t *testing.T) {
	record := results.Begin(t, "openstack", "cloud", "a stack of real Heat; its machine finds its own metadata; a replaced server keeps volume and address")
	openstacktest.Require(t)
	l := labtest.Open(t, lab.KindNspawn)
	began := time.Now()
	cloud := openstacktest.Open(t, l, openstack.Options{})
	record.Figure("OpenStack up after", "%.1f s", time.Since(began).Seconds())
	tenant, err := cloud.NewAccount(t.Context(), "tenant")
	if err != nil {
		t.Fatal(err)
	}

	began = time.Now()
	id, err := tenant.CreateStack(t.Context(), openstack.Template{
		Name: "storage", Text: storageStack, Parameters: map[string]any{"greeting": "hello"},
	})
	if err != nil {
		t.Fatal(err)
	}
	stack, err := tenant.WaitStack(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	record.Figure("stack "+stack.Status+" after", "%.1f s", time.Since(began).Seconds())
	server := physicalID(t, tenant, id, "storage_server")

	userData, err := cloud.UserData(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(userData), "content: hello") {
		t.Errorf("user_data of the server: %q", userData)
	}
	address, err := cloud.Address(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	machine, err := l.Nspawn(t.Context(), lab.Spec{Name: "storage", ServerID: server, Address: address, UserData: userData, Metadata: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := machine.WaitCloudInit(t.Context()); err != nil {
		t.Fatal(err)
	}
	greeting, err := machine.Pull(t.Context(), "/etc/greeting")
	if err != nil || string(greeting) != "hello" {
		t.Errorf("what the user_data writes: %q, %v", greeting, err)
	}
	ownMetadata(t, machine, server)
	healsKeepingItsVolume(t, cloud, tenant, id, address)
	if err := tenant.DeleteStack(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// ownMetadata: the machine reads its own metadata, whatever it claims to be.
func ownMetadata(t *testing.T, machine lab.Node, server string) {
	t.Helper()
	out, err := machine.Exec(t.Context(), "curl", "--fail", "--silent", "--show-error", "--max-time", "30",
		"--header", "X-Instance-ID: 7a4d4c1e-0000-4000-8000-000000000000", "--header", "X-Forwarded-For: 10.10.0.32",
		"http://169.254.169.254/openstack/latest/meta_data.json")
	if err != nil {
		t.Fatal(err)
	}
	var metadata struct{ UUID string }
	if err := json.Unmarshal(out, &metadata); err != nil || metadata.UUID != server {
		t.Errorf("metadata of the machine: uuid %q, %v; want %s", metadata.UUID, err, server)
	}
}

// healsKeepingItsVolume: Heat replaces the server, and the new one has the old one's
// address and volume.
func healsKeepingItsVolume(t *testing.T, cloud *openstack.Cloud, tenant *openstack.Account, stack string, address netip.Addr) {
	t.Helper()
	before := physicalID(t, tenant, stack, "storage_server")
	volume := physicalID(t, tenant, stack, "storage_server_volume")
	if err := tenant.MarkUnhealthy(t.Context(), stack, "storage_server"); err != nil {
		t.Fatal(err)
	}
	err := tenant.UpdateStack(t.Context(), stack, openstack.Template{
		Name: "storage", Text: storageStack, Parameters: map[string]any{"greeting": "hello"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tenant.WaitStack(t.Context(), stack); err != nil {
		t.Fatal(err)
	}
	after := physicalID(t, tenant, stack, "storage_server")
	if after == before {
		t.Errorf("the server is still %s", before)
	}
	if now, err := cloud.Address(t.Context(), after); err != nil || now != address {
		t.Errorf("address of the new server: %s, %v; want %s", now, err, address)
	}
	if now := physicalID(t, tenant, stack, "storage_server_volume"); now != volume {
		t.Errorf("volume of the stack: %s; want %s", now, volume)
	}
	var answer struct {
		Volume struct {
			Status      string
			Attachments []struct {
				Server string `json:"server_id"`
			}
		}
	}
	if err := tenant.Call(t.Context(), "GET", openstack.CinderURL+"/volumes/"+volume, nil, &answer); err != nil {
		t.Fatal(err)
	}
	if v := answer.Volume; v.Status != "in-use" || len(v.Attachments) != 1 || v.Attachments[0].Server != after {
		t.Errorf("the volume is %+v; want it in use by %s alone", v, after)
	}
}

func physicalID(t *testing.T, a *openstack.Account, stack, resource string) string {
	t.Helper()
	resources, err := a.Resources(t.Context(), stack)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources {
		if r.Name == resource {
			return r.PhysicalID
		}
	}
	t.Fatalf("stack %s has no resource %s: %+v", stack, resource, resources)
	return ""
}

// TestKeystoneAddress: the files below rootfs have the lab's address as a constant.
func TestKeystoneAddress(t *testing.T) {
	if want := "http://" + lab.Gateway.String() + ":5000/v3"; openstack.AuthURL != want {
		t.Errorf("the files name Keystone at %s, but the lab is at %s", openstack.AuthURL, want)
	}
}
