package document_test

import (
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/document"
)

const clusterDocument = `{
  "apiVersion": "nodehitch/v1", "epoch": 1, "generation": 3, "role": "master",
  "cluster": {"endpoint": "10.10.0.5:6443", "externalAddress": "203.0.113.5", "podCIDR": "10.244.0.0/16", "serviceCIDR": "10.96.0.0/12", "initialize": true,
    "masters": [{"serverId": "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f", "name": "master_node-0", "addresses": ["10.10.0.5", "fd00::5"]}],
    "bootstrapToken": "abcdef.0123456789abcdef",
    "caCertificateHash": "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "certificateKey": "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"},
  "clusterMembers": {"members": [
    {"serverId": "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f", "name": "master_node-0", "addresses": ["10.10.0.6"], "role": "master", "bootstrapToken": "abcde1.0123456789abcde1"},
    {"serverId": "7f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f", "name": "worker_node-0", "addresses": [], "role": "worker", "bootstrapToken": "abcde2.0123456789abcde2"}]},
  "clusterDepartures": {"members": [{"serverId": "8f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f", "name": "worker_node-1", "addresses": ["10.10.0.8"]}],
    "deleteUnmanagedPods": false, "force": true},
  "clusterDrains": {"members": [{"serverId": "9f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f", "name": "worker_node-2", "addresses": ["10.10.0.9"]}], "deleteUnmanagedPods": true},
  "clusterAccess": {"role": "tacker"}
}`

func TestFaultsOfACluster(t *testing.T) {
	if _, err := document.Decode([]byte(clusterDocument)); err != nil {
		t.Fatal(err)
	}
	const member, left = "/clusterMembers/members/", "/clusterDepartures/members/0/"
	for name, c := range map[string]struct {
		old, new string
		pointers []string
	}{
		"a storage server":               {`"role": "master",`, `"role": "storage",`, []string{"/cluster/role", "/cluster/certificateKey", "/cluster/initialize"}},
		"a worker that initialises":      {`"role": "master",`, `"role": "worker",`, []string{"/cluster/certificateKey", "/cluster/initialize"}},
		"an endpoint by name":            {`"10.10.0.5:6443"`, `"master:6443"`, []string{"/cluster/endpoint"}},
		"an endpoint without a port":     {`"10.10.0.5:6443"`, `"10.10.0.5"`, []string{"/cluster/endpoint"}},
		"an endpoint of port 0":          {`"10.10.0.5:6443"`, `"10.10.0.5:0"`, []string{"/cluster/endpoint"}},
		"an endpoint that is a flag":     {`"10.10.0.5:6443"`, `"--config=/x:1"`, []string{"/cluster/endpoint"}},
		"an endpoint of no host":         {`"10.10.0.5:6443"`, `"0.0.0.0:6443"`, []string{"/cluster/endpoint"}},
		"IPv6 without brackets":          {`"10.10.0.5:6443"`, `"fd00::5:6443"`, []string{"/cluster/endpoint"}},
		"an external address by name":    {`"203.0.113.5"`, `"vip.example"`, []string{"/cluster/externalAddress"}},
		"no network of Pods":             {`"10.244.0.0/16"`, `"10.244.0.0"`, []string{"/cluster/podCIDR"}},
		"no network of Services":         {`"10.96.0.0/12"`, `"x"`, []string{"/cluster/serviceCIDR"}},
		"a token that is longer":         {`"abcdef.0123456789abcdef"`, `"abcdef.0123456789abcdef0"`, []string{"/cluster/bootstrapToken"}},
		"a token in upper case":          {`"abcdef.0123456789abcdef"`, `"ABCDEF.0123456789abcdef"`, []string{"/cluster/bootstrapToken"}},
		"a token on two lines":           {`"abcdef.0123456789abcdef"`, `"abcdef.0123456789abcdef\n"`, []string{"/cluster/bootstrapToken"}},
		"a hash of another kind":         {`"sha256:0123`, `"sha512:0123`, []string{"/cluster/caCertificateHash"}},
		"a key that is short":            {`"fedcba98`, `"`, []string{"/cluster/certificateKey"}},
		"an id with a path":              {`"6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f", "name": "master_node-0", "addresses": ["10.10.0.5"`, `"../x", "name": "master_node-0", "addresses": ["10.10.0.5"`, []string{"/cluster/masters/0/serverId"}},
		"a name on two lines":            {`"name": "master_node-0", "addresses": ["10.10.0.5"`, `"name": "a\nb", "addresses": ["10.10.0.5"`, []string{"/cluster/masters/0/name"}},
		"an address with a zone":         {`"fd00::5"`, `"fe80::1%eth0"`, []string{"/cluster/masters/0/addresses/1"}},
		"an address that is a name":      {`"10.10.0.6"`, `"host"`, []string{member + "0/addresses/0"}},
		"no masters":                     {`"masters": [{"serverId": "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f", "name": "master_node-0", "addresses": ["10.10.0.5", "fd00::5"]}],`, `"masters": null,`, []string{"/cluster/masters"}},
		"one member twice":               {`"7f1c1d4e`, `"6f1c1d4e`, []string{member + "1/serverId"}},
		"one token id twice":             {`"abcde2.`, `"abcde1.`, []string{member + "1/bootstrapToken"}},
		"a member that is a registry":    {`"role": "worker"`, `"role": "registry"`, []string{member + "1/role"}},
		"a member's token with a slash":  {`"abcde2.`, `"abc/e2.`, []string{member + "1/bootstrapToken"}},
		"one that leaves without an id":  {`"8f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f"`, `""`, []string{left + "serverId"}},
		"one that leaves by a name":      {`"10.10.0.8"`, `"x"`, []string{left + "addresses/0"}},
		"one that is upgraded by a name": {`"10.10.0.9"`, `"x"`, []string{"/clusterDrains/members/0/addresses/0"}},
		"no list of those upgraded":      {`{"members": [{"serverId": "9f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f", "name": "worker_node-2", "addresses": ["10.10.0.9"]}], `, `{"members": null, `, []string{"/clusterDrains/members"}},
		"rights of another role":         {`{"role": "tacker"}`, `{"role": "admin"}`, []string{"/clusterAccess/role"}},
	} {
		t.Run(name, func(t *testing.T) {
			said := hasFaults(t, clusterDocument, c.old, c.new, c.pointers)
			for _, secret := range []string{"0123456789abcdef0", "fedcba"} {
				if strings.Contains(strings.ReplaceAll(said, "sha256:0123", ""), secret) {
					t.Errorf("the error repeats a secret: %s", said)
				}
			}
		})
	}
}
