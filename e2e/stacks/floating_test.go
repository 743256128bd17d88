package stacks

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/e2e/openstack"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Somebody else's volume on the storage server, by its floating address, and its claim.
const theirs = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: theirs}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  persistentVolumeReclaimPolicy: Retain
  nfs: {server: %s, path: /volume/nfs/pv1}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: theirs, namespace: default}
spec: {volumeName: theirs, accessModes: [ReadWriteMany], storageClassName: "", resources: {requests: {storage: 1Gi}}}
`

// floatingAddress gives the storage server a floating address that no template has.
func (c *cluster) floatingAddress(server string) (address string) {
	c.T.Helper()
	var networks struct{ Networks []struct{ ID string } }
	c.call(http.MethodGet, openstack.NeutronURL+"/networks?name="+openstack.ExternalNetwork, nil, &networks)
	var ports struct{ Ports []struct{ ID string } }
	c.call(http.MethodGet, openstack.NeutronURL+"/ports?device_id="+url.QueryEscape(server), nil, &ports)
	if len(networks.Networks) != 1 || len(ports.Ports) != 1 {
		c.T.Fatalf("Neutron has the external networks %v and the server's ports %v, want one of each", networks.Networks, ports.Ports)
	}
	var made struct {
		FloatingIP struct {
			Address string `json:"floating_ip_address"`
		}
	}
	c.call(http.MethodPost, openstack.NeutronURL+"/floatingips", map[string]any{"floatingip": map[string]any{
		"floating_network_id": networks.Networks[0].ID, "port_id": ports.Ports[0].ID}}, &made)
	return made.FloatingIP.Address
}

// inUse: a volume of somebody else that is bound by the storage server's floating address
// forbids a heal of this server.
func (c *cluster) inUse(r *results.Case) {
	storage := c.one(api.RoleStorage)
	address := c.floatingAddress(storage.ID)
	c.operate(api.ChangeExtConn)
	if points := c.instance().Topology.Servers; !slices.ContainsFunc(points, func(s api.Server) bool {
		return s.ID == storage.ID && slices.ContainsFunc(s.ConnectionPoints, func(p api.ConnectionPoint) bool { return slices.Contains(p.FloatingAddresses, address) })
	}) {
		c.T.Fatalf("no connection point of the storage server has the floating address %s: %+v", address, points)
	}
	if err := c.kube.Apply(c.T.Context(), fmt.Sprintf(theirs, address)); err != nil {
		c.T.Fatal(err)
	}
	c.kubectl("wait", "pv/theirs", "--for=jsonpath={.status.phase}=Bound", "--timeout=60s")
	before := c.kubectl("get", "pv", "-o", "name")

	_, err := c.Hitchctl(c.T.Context(), "operate", c.id, string(api.Heal), "--wait", "--phase=START", "--vnfc-instance-id="+storage.ID)
	if err == nil || !strings.Contains(err.Error(), "default/theirs") {
		c.T.Errorf("the START of a heal ended with %v, want a failure that names the claim default/theirs", err)
	}
	if after := c.kubectl("get", "pv", "-o", "name"); after != before {
		c.T.Errorf("there were %s, there are %s", before, after)
	}
	c.kubectl("delete", "pvc", "theirs", "--timeout=60s")
	c.kubectl("delete", "pv", "theirs", "--timeout=60s")
	r.Figure("bound by the floating address", "%s", address)
}
