package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
)

const cloudConfig = "openstack: {cloudsFile: %s, cloud: fake, timeoutSeconds: 1}\nattestation: {mode: token}\n"

// cmdCloud is `cloud start`, before the controller's start; `cloud stack NAME STATUS
// REASON`, which makes the stack of a storage server or puts it into that state; and
// `cloud away` and `cloud back`.
func cmdCloud(ts *testscript.TestScript, _ bool, args []string) {
	w := worldOf(ts)
	switch args[0] {
	case "start":
		w.cloud = openstacktest.Start(w.t)
	case "stack":
		server, volume := ts.Getenv("SERVER"), ts.Getenv("VOLUME")
		const port = "7b0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f1"
		w.cloud.Put(openstacktest.Stack{ID: ts.Getenv("STACK"), Name: args[1], Status: args[2], Reason: args[3], Resources: []openstacktest.Resource{
			{Name: "storage_server", Type: "OS::Nova::Server", PhysicalID: server},
			{Name: "storage_server_CP", Type: "OS::Neutron::Port", PhysicalID: port},
			{Name: "storage_server_volume", Type: "OS::Cinder::Volume", PhysicalID: volume},
		}},
			openstacktest.Server{ID: server, Name: "storage_server"},
			openstacktest.Port{ID: port, Name: "p", DeviceID: server, Addresses: []string{"10.10.0.5"}},
			openstacktest.Volume{ID: volume, Name: "v", SizeGiB: 1, AttachedTo: []string{server}})
	case "away":
		w.cloud.Fail(openstacktest.Stacks, openstacktest.Fault{Status: 503})
	case "back":
		w.cloud.Fail(openstacktest.Stacks, openstacktest.Fault{})
	default:
		ts.Fatalf("cloud %v", args)
	}
}

// withCloud adds the cloud to the controller's configuration, if the script has one.
func (w *world) withCloud(config string) error {
	if w.cloud == nil {
		return nil
	}
	f, err := os.OpenFile(filepath.Clean(config), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(f, cloudConfig, w.cloud.CloudsFile(w.t)); err != nil {
		return err
	}
	return f.Close()
}
