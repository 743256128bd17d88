package loopback

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// ClusterParams are the additionalParams of a cluster whose nodes have this proxy, none for "".
func ClusterParams(proxy string) map[string]any {
	cp := func(name string) map[string]any { return map[string]any{"ssh_cp_name": name, "nic_cp_name": name} }
	master := cp("master_CP")
	master["cluster_cp_name"] = "master_CP"
	cluster := map[string]any{"script_path": "Scripts/install.sh", "master_node": master, "worker_node": cp("worker_CP")}
	if proxy != "" {
		cluster["proxy"] = map[string]any{"http_proxy": proxy}
	}
	return map[string]any{"k8s_cluster_installation_param": cluster}
}

// StorageParams are those of a cluster with a storage server, which has one volume,
// storage_server_volume at /volume, exported as /volume/nfs/pv1.
func StorageParams() map[string]any {
	params := ClusterParams("")
	ClusterOf(params)["storage_server"] = map[string]any{
		"ssh_cp_name": "storage_server_CP", "nic_cp_name": "storage_server_CP",
		"cinder_volume_setup_params": []any{map[string]any{"volume_resource_id": "storage_server_volume", "mount_to": "/volume"}},
		"nfs_server_setup_params":    []any{map[string]any{"export_dir": "/volume/nfs/pv1", "export_to": "10.10.0.0/24"}},
	}
	return params
}

// ClusterOf is the part of the parameters that a cluster has, to be changed.
func ClusterOf(params map[string]any) map[string]any {
	return params["k8s_cluster_installation_param"].(map[string]any)
}

// Put gives an instance StorageParams, and the file that they name.
func (c *Controller) Put(instance string, topology *api.Topology) {
	c.t.Helper()
	c.PutParams(instance, StorageParams(), topology)
	_, err := client.Read[api.PackageFile](c.API.PutFileWithBody(c.t.Context(), instance, "Scripts/install.sh", nil,
		"application/octet-stream", strings.NewReader("#!/bin/sh\n")))
	if err != nil {
		c.t.Fatal(err)
	}
}

// PutParams gives an instance its additionalParams.
func (c *Controller) PutParams(instance string, additionalParams map[string]any, topology *api.Topology) {
	c.t.Helper()
	params, err := json.Marshal(additionalParams)
	if err != nil {
		c.t.Fatal(err)
	}
	_, err = client.Read[api.Instance](c.API.PutInstance(c.t.Context(), instance, nil, api.InstanceSpec{AdditionalParams: params, Topology: topology}))
	if err != nil {
		c.t.Fatal(err)
	}
}

// StorageTopology is a stack of one storage server with one volume, and of workers.
func StorageTopology(server, volume string, sizeBytes int64, workers ...string) *api.Topology {
	t := &api.Topology{
		StackStatus: "CREATE_COMPLETE",
		Servers: []api.Server{{ID: server, Name: "storage_server", VolumeIds: []string{volume},
			ConnectionPoints: []api.ConnectionPoint{{Name: "storage_server_CP", Addresses: []string{"10.10.0.5"}}}}},
		Volumes: []api.TopologyVolume{{ResourceID: "storage_server_volume", ID: volume, SizeBytes: sizeBytes}},
	}
	for i, id := range workers {
		t.Servers = append(t.Servers, api.Server{ID: id, Name: fmt.Sprintf("worker-%d", i),
			ConnectionPoints: []api.ConnectionPoint{{Name: "worker_CP", Addresses: []string{fmt.Sprintf("10.10.0.%d", 6+i)}}}})
	}
	return t
}

// Operate begins an operation; there need not be masters and workers. Outcome
// waits for its end.
func (c *Controller) Operate(instance string, o api.OperationRequest) int64 {
	c.t.Helper()
	o.Partial = true
	op, err := client.Read[api.Operation](c.API.PostOperation(c.t.Context(), instance, nil, o))
	if err != nil {
		c.t.Fatal(err)
	}
	return op.Sequence
}

// Outcome waits for the end of an operation.
func (c *Controller) Outcome(instance string, sequence int64) *api.Operation {
	c.t.Helper()
	var op *api.Operation
	Until(c.t, "the operation ends", func() bool {
		var err error
		if op, err = client.Read[api.Operation](c.API.GetOperation(c.t.Context(), instance, sequence, nil)); err != nil {
			c.t.Fatal(err)
		}
		return op.State != api.Processing
	})
	return op
}

// Node is what the controller says of a node; the zero value if it does not know it.
func (c *Controller) Node(id string) *api.Node {
	node, err := client.Read[api.Node](c.API.GetNode(c.t.Context(), id, nil))
	if err != nil {
		return &api.Node{}
	}
	return node
}

// JoinToken of an instance.
func (c *Controller) JoinToken(instance string) string {
	c.t.Helper()
	token, err := client.Read[api.JoinToken](c.API.GetJoinToken(c.t.Context(), instance))
	if err != nil {
		c.t.Fatal(err)
	}
	return token.Token
}

// Token makes an API token. One of each name lives at a time, so the second one has another name.
func (c *Controller) Token(name string, scope api.Scope) *api.NewToken {
	c.t.Helper()
	if c.tokens == nil {
		c.tokens = map[string]int{}
	}
	if c.tokens[name]++; c.tokens[name] > 1 {
		name = fmt.Sprint(name, "-", c.tokens[name])
	}
	token, err := client.Read[api.NewToken](c.API.CreateToken(c.t.Context(), api.TokenRequest{Name: name, Scope: scope}))
	if err != nil {
		c.t.Fatal(err)
	}
	return token
}

// Trust is what user_data says of the controller.
func (c *Controller) Trust() *api.Trust {
	c.t.Helper()
	trust, err := client.Read[api.Trust](c.API.GetTrust(c.t.Context()))
	if err != nil {
		c.t.Fatal(err)
	}
	return trust
}

// Workers is the stack of n workers. The first one has the number from, and the server id(1, from).
func Workers(id func(kind, n int) string, from, n int) *api.Topology {
	t := &api.Topology{StackStatus: "CREATE_COMPLETE"}
	for i := from; i < from+n; i++ {
		t.Servers = append(t.Servers, api.Server{ID: id(1, i), Name: fmt.Sprintf("worker%d", i),
			ConnectionPoints: []api.ConnectionPoint{{Name: "worker_CP", Addresses: []string{fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)}}}})
	}
	return t
}
