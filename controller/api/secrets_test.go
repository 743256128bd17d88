package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// The whole life of an instance, at level debug: none of the secrets that go in or
// come out is in the log, and what goes in sealed never comes out.
func TestNoSecretReachesTheLog(t *testing.T) {
	w := newWorld(t)
	node, join := w.enroll()
	var made wire.NewToken
	w.ok(w.as(w.operator, "POST", "/v1/tokens", `{"name": "third", "scope": "viewer"}`), http.StatusCreated, &made)
	w.ok(w.as(w.operator, "PUT", script, "#!/bin/sh\n"), http.StatusOK, nil)
	withRegistry := strings.Replace(spec, `"storage_server": {`, `"private_registry_connection_info": [{"connection_type": 1, "server": "registry.example.com",
		"username": "user01", "password": "registry-Passw0rd"}], "storage_server": {`, 1)
	w.ok(w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID, withRegistry), http.StatusOK, nil)
	w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID, strings.Replace(withRegistry, `"registry-Passw0rd"`, `["registry-Passw0rd"]`, 1))
	w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID, strings.Replace(withRegistry, `"username": "user01"`, `"username": "registry:user"`, 1))

	tag := etag(t, w, node)
	w.call(node, "GET", "/v1/node/config", "", "If-None-Match: "+tag+"x")
	csr := testca.Request(testca.NewKey(), nil)
	renewal, err := json.Marshal(wire.CertificateRequest{CertificateRequest: csr})
	w.must(err)
	w.ok(w.call(node, "POST", "/v1/node/certificate", string(renewal)), http.StatusCreated, nil)
	w.ok(w.call(node, "PUT", "/v1/node/status", `{"epoch": 1, "observedGeneration": 1, "observedDigest": "x", "conditions": [], "facts": {}}`), http.StatusNoContent, nil)
	w.call(node, "POST", "/v1/node/volumes/"+volumeID+"/format", `{"phase": "wanted", "sizeBytes": 1073741824, "filesystemUuid": "`+wire.FilesystemUUID(volumeID)+`", "blankCheck": {"bytesRead": 1, "samples": 1}}`)

	// Faulty requests that hold the secrets where messages might repeat them.
	w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID, strings.Replace(spec, `"username": "ubuntu", "password": `, `"username": `+quote(password)+`, "password": [`, 1))
	w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID, strings.Replace(spec, `"cluster_cp_name"`, `"cluster_cidr": `+quote(password)+`, "cluster_cp_name"`, 1))
	w.as(join+"x", "POST", "/v1/enroll", `{"serverId": "`+serverID+`", "certificateRequest": "x"}`)
	w.as(made.Secret+"x", "GET", "/v1/nodes", "")
	w.as(made.Secret, "DELETE", "/v1/tokens/"+made.Token.ID, "")
	w.ok(w.as(w.operator, "DELETE", "/v1/tokens/"+made.Token.ID, ""), http.StatusNoContent, nil)

	secrets := map[string]string{
		"the operator's token": w.operator, "the viewer's token": w.viewer, "the new token": made.Secret, "the join token": join,
		"the VM's password": password, "the proxy's password": "proxy-Passw0rd", "the VIM's password": "vim-Passw0rd", "the registry's password": "registry-Passw0rd",
	}
	for _, path := range []string{"/v1/vnf_instances", "/v1/vnf_instances/" + instanceID, "/v1/nodes", "/v1/tokens", "/v1/operations", "/v1/volumes"} {
		a := w.as(w.operator, "GET", path, "")
		for name, secret := range secrets {
			if strings.Contains(a.body, secret) {
				t.Errorf("%s is in %s", name, path)
			}
		}
	}
	log := w.log.String()
	for name, secret := range secrets {
		if _, half, ok := strings.Cut(secret, "."); ok {
			secret = half // the id before the dot is none
		}
		if at := strings.Index(log, secret); at >= 0 {
			t.Errorf("%s is in the log: %s", name, log[strings.LastIndex(log[:at], "\n")+1:at])
		}
	}
	for _, operation := range []string{"putInstance", "enroll", "renewCertificate", "postFormat", "createToken"} {
		if !strings.Contains(log, "operation="+operation+" ") {
			t.Errorf("the log knows nothing of %s", operation)
		}
	}
}

// What GET answers has placeholders for secrets. Sent back, they replace nothing.
func TestPlaceholdersOfSecretsAreRefused(t *testing.T) {
	w := newWorld(t)
	w.putInstance()
	path := "/v1/vnf_instances/" + instanceID
	var before, after wire.Instance
	w.ok(w.as(w.operator, "GET", path, ""), http.StatusOK, &before)
	a := w.as(w.operator, "PUT", path, `{"vimConnectionInfo": [{"accessInfo": {"password": "[redacted]"}}], "additionalParams": `+string(before.AdditionalParams)+`}`)
	want := []string{
		"/additionalParams/k8s_cluster_installation_param/master_node/password",
		"/additionalParams/k8s_cluster_installation_param/proxy/http_proxy",
		"/vimConnectionInfo/0/accessInfo/password",
	}
	if got := pointers(a.problem); a.status != http.StatusBadRequest || !slices.Equal(got, want) {
		t.Errorf("%d with faults at %v, want 400 and %v", a.status, got, want)
	}
	w.ok(w.as(w.operator, "PUT", path, spec), http.StatusOK, &after)
	if after.DesiredVersion != before.DesiredVersion {
		t.Errorf("the parameters are of version %d, want %d: the refused request changed them", after.DesiredVersion, before.DesiredVersion)
	}
}

func pointers(p wire.Problem) []string {
	var list []string
	for _, f := range p.InvalidParams {
		list = append(list, f.Pointer)
	}
	return list
}
