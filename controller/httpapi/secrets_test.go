package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/store/tx"
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
	w.ok(w.as(w.operator, "PUT", script, "#!/bin/sh\n"), http.StatusCreated, nil)
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
	for _, path := range []string{"/v1/vnf_instances", "/v1/vnf_instances/" + instanceID, "/v1/nodes", "/v1/tokens", "/v1/operations", "/v1/volumes", "/v1/events", "/v1/diagnostics"} {
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

const (
	masterID = "3f0c1d52-0000-4000-8000-000000000003"
	accessOf = "/v1/vnf_instances/" + secondID + "/cluster_access"
	vimToken = "vim-t0ken.of-the.cluster"
	// joining is a cluster whose one master is to join.
	joining = `{
  "topology": {"servers": [{"id": "` + masterID + `", "name": "master", "connectionPoints": [{"name": "m", "addresses": ["10.10.0.7"]}]}]},
  "additionalParams": {"k8s_cluster_installation_param": {"script_path": "Scripts/install.sh", "master_node": {"ssh_cp_name": "m", "cluster_cp_name": "m"},
    "worker_node": {"ssh_cp_name": "w"}, "cluster_members": {}}}}`
)

// join makes an instance whose master is a member of its cluster, and says how a VIM uses it.
// The secrets are those of the cluster.
func (w *world) join() (secrets map[string]string) {
	w.t.Helper()
	w.ok(w.as(w.operator, "PUT", "/v1/vnf_instances/"+secondID, joining), http.StatusCreated, nil)
	var token wire.JoinToken
	w.ok(w.as(w.operator, "GET", "/v1/vnf_instances/"+secondID+"/join_token", ""), http.StatusOK, &token)
	node := w.redeem(token, masterID)
	poll := func() (config wire.NodeConfig) {
		w.ok(w.call(node, "GET", "/v1/node/config", "", thisAgent), http.StatusOK, &config)
		return config
	}
	config := poll()
	said, err := json.Marshal(wire.NodeStatus{Epoch: config.Epoch, ObservedGeneration: config.Generation, ObservedDigest: config.Digest(),
		Conditions: []wire.Condition{{Type: wire.ConditionClusterMember, Status: wire.ConditionTrue, Reason: wire.ReasonJoined, ObservedGeneration: config.Generation, LastTransitionTime: w.now()}},
		Cluster:    &wire.ClusterFacts{CACertificateHash: "sha256:" + strings.Repeat("a", 64), CACertificate: "PEM", Token: vimToken}})
	w.must(err)
	w.ok(w.call(node, "PUT", "/v1/node/status", string(said)), http.StatusNoContent, nil)
	// A token that is none is refused, and not repeated.
	a := w.call(node, "PUT", "/v1/node/status", strings.Replace(string(said), vimToken, vimToken+" of the cluster", 1))
	if a.status != http.StatusBadRequest || strings.Contains(a.body, vimToken) {
		w.t.Errorf("a token with blanks is answered with %d %s", a.status, a.body)
	}
	if config = poll(); config.ClusterMembers == nil {
		w.t.Fatalf("the member has %v", config.Sections())
	}
	return map[string]string{"the VIM's token": vimToken, "a bootstrap token": config.Cluster.BootstrapToken, "the certificate key": config.Cluster.CertificateKey}
}

// Only who asks for the access of the VIM, and may, is shown a secret of the cluster.
func TestSecretsOfAClusterAreInNoOtherAnswer(t *testing.T) {
	w := newWorld(t)
	secrets := w.join()
	var access wire.ClusterAccess
	for name, c := range map[string]struct {
		token  string
		status int
	}{"an operator": {w.operator, http.StatusOK}, "Tacker": {w.tacker, http.StatusOK}, "a viewer": {w.viewer, http.StatusForbidden}} {
		a := w.as(c.token, "GET", accessOf, "")
		if a.status != c.status || strings.Contains(a.body, vimToken) != (c.status == http.StatusOK) {
			t.Errorf("%s: %d %s, want %d", name, a.status, a.body, c.status)
		}
	}
	w.ok(w.as(w.operator, "GET", accessOf, ""), http.StatusOK, &access)
	if want := (wire.ClusterAccess{Endpoint: "10.10.0.7:6443", CACertificate: "PEM", Token: vimToken}); access != want {
		t.Errorf("access %+v, want %+v", access, want)
	}
	for _, path := range []string{"/v1/vnf_instances", "/v1/vnf_instances/" + secondID, "/v1/nodes", "/v1/nodes/" + masterID, "/v1/operations", "/v1/volumes", "/v1/events", "/v1/agents", "/v1/diagnostics"} {
		a := w.as(w.operator, "GET", path, "")
		for name, secret := range secrets {
			if secret == "" || a.status != http.StatusOK || strings.Contains(a.body, secret) {
				t.Errorf("%s (%q) is in %s: %d", name, secret, path, a.status)
			}
		}
	}
	for name, secret := range secrets {
		if strings.Contains(w.log.String(), secret) {
			t.Errorf("%s is in the log", name)
		}
	}
}

// registries is the list of a cluster's registries, with what a test puts for their passwords.
const registries = `"private_registry_connection_info": [
	{"connection_type": 1, "server": "one.example.com", "username": "user01", "password": "%s"},
	{"connection_type": 1, "server": "two.example.com", "username": "user01", "password": "%s"}], "storage_server": {`

// shown is an instance with secrets, and its parameters as GET shows them.
func (w *world) shown() (before wire.Instance) {
	w.t.Helper()
	secret := strings.Replace(spec, `"storage_server": {`, fmt.Sprintf(registries, "registry-One", "registry-Two"), 1)
	w.ok(w.as(w.operator, "PUT", instancePath, secret), http.StatusCreated, nil)
	w.ok(w.as(w.operator, "GET", instancePath, ""), http.StatusOK, &before)
	return before
}

// What GET answers has placeholders for secrets. Sent back where nobody else can get them,
// they stand for the secrets.
func TestPlaceholdersKeepSecretsWhereTheyWere(t *testing.T) {
	w := newWorld(t)
	before := w.shown()
	put := func(change func(params string) string) (after wire.Instance) {
		t.Helper()
		w.ok(w.as(w.operator, "PUT", instancePath, `{"additionalParams": `+change(string(before.AdditionalParams))+`}`), http.StatusOK, &after)
		return after
	}
	if after := put(strings.Clone); after.DesiredVersion != before.DesiredVersion {
		t.Errorf("the same parameters made version %d of %d", after.DesiredVersion, before.DesiredVersion)
	}
	put(strings.NewReplacer("one.example.com", "two.example.com", "two.example.com", "one.example.com", "10.10.0.0/24", "10.20.0.0/24").Replace)
	d := w.inForce()
	for _, want := range []string{password, proxyLogin, "10.20.0.0/24",
		`"server":"two.example.com","username":"user01","password":"registry-Two"},{`, `"server":"one.example.com","username":"user01","password":"registry-One"`} {
		if !strings.Contains(d, want) {
			t.Errorf("in force is %s, without %s", d, want)
		}
	}
}

// inForce is the parameters that are in force, with their secrets.
func (w *world) inForce() (text string) {
	w.t.Helper()
	w.must(w.Lifecycle.Instances.Runner.View(instanceID, func(t *tx.Tx) error {
		d, err := desired.InForce(t)
		if err == nil {
			text = string(d.Raw)
		}
		return err
	}))
	return text
}

// Sent back with something else changed, they could give a secret to somebody else.
func TestPlaceholdersOfSecretsAreRefused(t *testing.T) {
	w := newWorld(t)
	before := w.shown()
	const cluster = "/additionalParams/k8s_cluster_installation_param"
	for what, test := range map[string]struct {
		old, with string
		want      []string
	}{
		"another user":              {`"username":"ubuntu"`, `"username":"root"`, []string{cluster + "/master_node/password"}},
		"one member more":           {`"username":"ubuntu"`, `"username":"ubuntu","x":1`, []string{cluster + "/master_node/password"}},
		"one member less":           {`"username":"ubuntu",`, ``, []string{cluster + "/master_node/password"}},
		"another proxy":             {`@host1:port1`, `@host2:port1`, []string{cluster + "/proxy/http_proxy"}},
		"a proxy in another member": {`"http_proxy"`, `"https_proxy"`, []string{cluster + "/proxy/https_proxy"}},
		"another registry":          {`"server":"one.example.com"`, `"server":"three.example.com"`, []string{cluster + "/private_registry_connection_info/0/password"}},
		"no secret before":          {`"username":"ubuntu"`, `"username":"[redacted]"`, []string{cluster + "/master_node/username", cluster + "/master_node/username", cluster + "/master_node/password"}},
	} {
		body := strings.Replace(string(before.AdditionalParams), test.old, test.with, 1)
		if body == string(before.AdditionalParams) {
			t.Fatalf("%s: nothing is changed", what)
		}
		a := w.as(w.operator, "PUT", instancePath, `{"additionalParams": `+body+`}`)
		if got := pointers(a.problem); a.status != http.StatusBadRequest || !slices.Equal(got, test.want) {
			t.Errorf("%s: %d with faults at %v, want 400 and %v", what, a.status, got, test.want)
		}
	}
	shown := `"additionalParams": ` + string(before.AdditionalParams) + `}`
	for what, test := range map[string]struct {
		body, path string
		want       []string
	}{
		"what GET never shows": {`{"vimConnectionInfo": [{"accessInfo": {"password": "[redacted]"}}], ` + shown, instancePath, []string{"/vimConnectionInfo/0/accessInfo/password"}},
		"a fault of the body":  {`{"stackID": "x", ` + shown, instancePath, []string{"/stackID"}},
		"another instance": {`{` + shown, "/v1/vnf_instances/" + secondID, []string{cluster + "/master_node/password", cluster + "/proxy/http_proxy",
			cluster + "/private_registry_connection_info/0/password", cluster + "/private_registry_connection_info/1/password"}},
	} {
		a := w.as(w.operator, "PUT", test.path, test.body)
		if got := pointers(a.problem); a.status != http.StatusBadRequest || !slices.Equal(got, test.want) {
			t.Errorf("%s: %d with faults at %v, want 400 and %v", what, a.status, got, test.want)
		}
	}
	var after wire.Instance
	w.ok(w.as(w.operator, "GET", instancePath, ""), http.StatusOK, &after)
	if after.DesiredVersion != before.DesiredVersion {
		t.Errorf("the parameters are of version %d, want %d: a refused request changed them", after.DesiredVersion, before.DesiredVersion)
	}
}

// Who has read a secret is for the record.
func TestReadingASecretIsLogged(t *testing.T) {
	w := newWorld(t)
	w.putInstance()
	w.join()
	var file wire.PackageFile
	w.ok(w.as(w.operator, "PUT", script, "#!/bin/sh\n"), http.StatusCreated, &file)
	logged := func(operation, who, path string) bool {
		for line := range strings.Lines(w.log.String()) {
			if strings.Contains(line, "level=INFO msg=request operation="+operation+" ") && strings.Contains(line, ` who="`+who+`" path=`+path+" ") {
				return true
			}
		}
		return false
	}
	for operation, path := range map[string]string{"getJoinToken": instancePath + "/join_token", "getClusterAccess": accessOf, "getFile": script, "getBackup": "/v1/backup", "getDiagnostics": "/v1/diagnostics"} {
		w.ok(w.as(w.operator, "GET", path, ""), http.StatusOK, nil)
		if !logged(operation, "token operator", path) {
			t.Errorf("the log has no line for %s", operation)
		}
	}
	if strings.Contains(w.log.String(), "level=INFO msg=request operation=getInstance ") {
		t.Error("reading an instance is logged, too")
	}
	// A part of a backup is as good as some of its secrets.
	blob := filepath.Join(w.dir, "blobs", file.Sha256[:2], file.Sha256)
	w.must(os.Remove(blob))
	w.must(os.Mkdir(blob, 0o700)) // it cannot be read
	if _, err := w.try(t.Context(), w.local(), "GET", "/v1/backup", ""); err == nil {
		t.Error("a backup without one of its files comes to its end")
	}
	if who := fmt.Sprintf("uid %d of this machine", os.Getuid()); !logged("getBackup", who, "/v1/backup") {
		t.Error("the log has no line for a backup that was cut off")
	}
}

func pointers(p wire.Problem) []string {
	var list []string
	for _, f := range p.InvalidParams {
		list = append(list, f.Pointer)
	}
	return list
}
