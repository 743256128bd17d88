package kube_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/agent/role/clusteraccess"
	"github.com/nodehitch/nodehitch/agent/role/clustermember"
	"github.com/nodehitch/nodehitch/agent/role/clustermembers"
	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// owner is the master that speaks for a real cluster: master-0, with the files of its
// machine in memory.
type owner struct {
	cluster
	dir    string // of the cluster
	m      *hosttest.Machine
	engine *converge.Engine
	doc    *api.NodeConfig
	now    time.Time
}

func newOwner(t *testing.T, m *hosttest.Machine, etcd string) *owner {
	o := &owner{dir: t.TempDir(), m: m, now: time.Now()}
	o.cluster = cluster{kubetest.Open(t, kube.Options{Dir: o.dir}), t}
	admin, err := o.Kubeconfig(kube.Admin, kube.Masters)
	if err != nil {
		t.Fatal(err)
	}
	m.Files[kubeapi.AdminKubeconfig] = hosttest.FileState{Content: string(admin), Mode: 0o600}
	now := func() time.Time { return o.now }
	o.engine = converge.New(
		clustermember.New(clustermember.Options{Host: m.Host(), ServerID: memberID(0)}),
		clustermembers.New(clustermembers.Options{Host: m.Host(), EtcdEndpoint: etcd, Now: now}),
		clusteraccess.New(clusteraccess.Options{Host: m.Host(), Now: now}),
	)
	o.doc = &api.NodeConfig{
		APIVersion: api.NodeConfigV1, Generation: 1, Role: api.RoleMaster,
		Cluster:        &api.ClusterSection{Endpoint: "10.10.0.5:6443", PodCIDR: "10.244.0.0/16", ServiceCIDR: "10.96.0.0/12", Initialize: true, BootstrapToken: tokenOf(0)},
		ClusterMembers: &api.ClusterMembersSection{}, ClusterAccess: &api.ClusterAccessSection{Role: api.ClusterAccessTacker},
	}
	return o
}

func memberID(n int) string { return fmt.Sprintf("6f1c1d4e-8a5b-4c0e-9d1f-%012d", n) }
func tokenOf(n int) string  { return fmt.Sprintf("token%d.secretsecretsec%d", n, n) }

// members gives the document the members of these numbers.
func (o *owner) members(numbers ...int) {
	o.doc.ClusterMembers.Members = []api.ClusterMember{}
	for _, n := range numbers {
		o.doc.ClusterMembers.Members = append(o.doc.ClusterMembers.Members, api.ClusterMember{
			ServerID: memberID(n), Name: fmt.Sprintf("server-%d", n), Role: api.RoleMaster, BootstrapToken: tokenOf(n),
		})
	}
}

// node makes the Node of a server as its kubelet does, or sets whether it is Ready.
func (o *owner) node(name string, n int, ready string) {
	o.t.Helper()
	o.apply(fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s}}", name))
	o.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(
		`{"status": {"nodeInfo": {"systemUUID": %q, "machineID": "", "bootID": "", "kernelVersion": "", "osImage": "", "containerRuntimeVersion": "",
		"kubeletVersion": "", "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64"},
		"conditions": [{"type": "Ready", "status": %q, "reason": "Test"}]}}`, strings.ToUpper(memberID(n)), ready))
}

// joinOwner gives the owner the credentials that its kubelet gets, and its Node.
func (o *owner) joinOwner() {
	kubelet, err := o.Kubeconfig("system:node:master-0", "system:nodes")
	if err != nil {
		o.t.Fatal(err)
	}
	o.m.Files[clustermember.Kubeconfig] = hosttest.FileState{Content: string(kubelet), Mode: 0o600}
	o.node("master-0", 0, "True")
}

// pass makes one pass; each condition must have its reason.
func (o *owner) pass(member, members, access api.Reason) converge.Report {
	o.t.Helper()
	r := o.engine.Converge(o.t.Context(), o.doc, converge.Options{Confirmed: true})
	for condition, want := range map[string]api.Reason{
		api.ConditionClusterMember: member, api.ConditionClusterMembersCurrent: members, api.ConditionClusterAccessReady: access,
	} {
		if c := r.Condition(condition); c.Reason != want {
			o.t.Fatalf("%s is %s %s: %s; want %s", condition, c.Status, c.Reason, c.Message, want)
		}
	}
	return r
}

// converged makes a pass, and another one that must change nothing.
func (o *owner) converged() converge.Report {
	o.t.Helper()
	r := o.pass(api.ReasonJoined, api.ReasonMembersCurrent, api.ReasonAccessGranted)
	const versions = "jsonpath={range .items[*]}{.metadata.name} {.metadata.resourceVersion} {end}"
	state := func() string {
		return o.kubectl("get", "nodes", "-o", versions) + o.kubectl("get", "secrets,serviceaccounts", "-n", "kube-system", "-o", versions) +
			o.kubectl("get", "clusterroles,clusterrolebindings", "-o", versions)
	}
	before, files := state(), o.m.Changes()
	if again := o.pass(api.ReasonJoined, api.ReasonMembersCurrent, api.ReasonAccessGranted); again.Changed || state() != before || !o.m.Changes().Since(files).None() {
		o.t.Errorf("a second pass changed something: %+v", again.Results)
	}
	return r
}

// as runs kubectl with a bearer token.
func (o *owner) as(token string, args ...string) (string, error) {
	return o.Kubectl(o.t.Context(), append(args, "--kubeconfig=/dev/null", "--server="+o.URL, "--certificate-authority="+filepath.Join(o.dir, "ca.crt"), "--token="+token)...)
}

// A server joins with its bootstrap token, at once or a year later, and no longer once it has joined.
func TestTheOwnerLetsServersJoin(t *testing.T) {
	results.Begin(t, suite, "members-join",
		"bootstrap tokens are valid for servers without a Node, a year later too, and for no others; a second pass writes nothing")
	kubetest.Require(t)
	o := newOwner(t, hosttest.New(), "")
	o.members(0, 1)
	if r := o.engine.Converge(t.Context(), o.doc, converge.Options{Confirmed: true}); r.Condition(api.ConditionClusterMember).Reason != api.ReasonNotJoined {
		t.Errorf("without kubelet: %+v", r.Conditions)
	}
	o.joinOwner()
	o.converged()
	whoami := func(n int) string {
		out, _ := o.as(tokenOf(n), "auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.groups}")
		return out
	}
	if who := whoami(1); !strings.Contains(who, "system:bootstrap:token1") || !strings.Contains(who, "system:bootstrappers:kubeadm:default-node-token") {
		t.Errorf("the token of server 1 is for %q", who)
	}
	if who := whoami(0); who != "" {
		t.Errorf("the token of a member is for %q", who)
	}
	if id := o.kubectl("get", "node", "master-0", "-o", `jsonpath={.metadata.annotations.nodehitch\.io/server-id}`); id != memberID(0) {
		t.Errorf("the Node is of server %q", id)
	}

	o.now = o.now.Add(365 * 24 * time.Hour) // the API server's clock is not moved: it has to be another Secret
	o.converged()
	end := o.kubectl("get", "secret", "-n", "kube-system", "bootstrap-token-token1", "-o", "go-template={{.data.expiration | base64decode}}")
	if want := o.now.UTC().Add(24 * time.Hour).Format(time.RFC3339); end != want {
		t.Errorf("a year later the token ends at %s, want %s", end, want)
	}
	o.node("worker", 1, "True")
	o.converged()
	// The API server remembers tokens for 10 s.
	loopback.Until(t, "the token of a server that has joined is refused", func() bool { return whoami(1) == "" })
}

// A master dies: its Node and its etcd member go, and the quorum is kept.
func TestTheOwnerRemovesADeadMaster(t *testing.T) {
	results.Begin(t, suite, "members-dead-master",
		"the Node of a deleted server stays while it is Ready; then its etcd member and it are removed; others stay")
	kubetest.Require(t)
	p := newControlPlane(t)
	o := newOwner(t, p.m, p.clients[0])
	o.members(0, 1, 2)
	o.joinOwner()
	o.node("master-1", 1, "True")
	o.node("master-2", 2, "True")
	o.node("stranger", 9, "Unknown")
	o.converged()
	o.members(0, 1)
	p.kill(2)
	if r := o.pass(api.ReasonJoined, api.ReasonConverging, api.ReasonAccessGranted); r.Changed {
		t.Errorf("a Ready Node: %+v", r.Results)
	}
	o.node("master-2", 2, "Unknown")
	// The member may have led the others, which notice after a moment that it is gone.
	loopback.Until(t, "etcd lets the dead member go", func() bool {
		r := o.engine.Converge(t.Context(), o.doc, converge.Options{Confirmed: true})
		switch c := r.Condition(api.ConditionClusterMembersCurrent); c.Reason {
		case api.ReasonMembersCurrent:
			return true
		case api.ReasonClusterNotInstalled, api.ReasonConverging:
		default:
			t.Fatalf("%+v", c)
		}
		return false
	})
	o.converged()
	if names := p.names(); names != "master-0 master-1" {
		t.Errorf("the members of etcd are %q", names)
	}
	if names := o.kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"); names != "master-0 master-1 stranger" {
		t.Errorf("the Nodes are %q", names)
	}
}

// The token is tried as Tacker's driver would use it.
func TestAVIMHasItsRightsAndNoMore(t *testing.T) {
	record := results.Begin(t, suite, "cluster-access",
		"the service account of the VIM may do what Tacker's driver does and no more; its token works, and is another one when the account is")
	kubetest.Require(t)
	o := newOwner(t, hosttest.New(), "")
	o.members(0)
	o.joinOwner()
	facts := o.converged().Cluster
	if facts == nil || facts.Token == "" || facts.TokenExpiresAt.Before(time.Now().Add(360*24*time.Hour)) {
		t.Fatal("the pass reports no token, or one that ends within a year")
	}
	ca, err := os.ReadFile(filepath.Join(o.dir, "ca.crt"))
	if err != nil || facts.CACertificate != string(ca) || !strings.HasPrefix(facts.CACertificateHash, "sha256:") {
		t.Errorf("the authority is %q (%v), want %q", facts.CACertificate, err, ca)
	}
	var granted int64 // of what it must not do
	can := func(want string, args ...string) {
		t.Helper()
		if out, _ := o.as(facts.Token, append([]string{"auth", "can-i"}, args...)...); out != want {
			t.Errorf("may it %q? %q, want %s", args, out, want)
			if want == "no" {
				granted++
			}
		}
	}
	for _, may := range []string{"create deployments.apps", "patch statefulsets.apps --subresource=scale", "delete pods", "create namespaces", "list persistentvolumeclaims", "get nodes", "create roles.rbac.authorization.k8s.io"} {
		can("yes", append(strings.Fields(may), "-n", "vnf")...)
	}
	for _, may := range []string{"* *", "create nodes", "delete nodes", "create serviceaccounts --subresource=token", "create pods --subresource=exec", "impersonate users", "escalate clusterroles.rbac.authorization.k8s.io", "create certificatesigningrequests.certificates.k8s.io"} {
		can("no", append(strings.Fields(may), "-n", "vnf")...)
	}
	if _, err := o.as(facts.Token, "create", "namespace", "vnf"); err != nil {
		t.Error(err)
	}
	if _, err := o.as(facts.Token, "create", "deployment", "web", "--image=web", "-n", "vnf"); err != nil {
		t.Error(err)
	}
	if _, err := o.as(facts.Token, "create", "clusterrolebinding", "more", "--clusterrole=cluster-admin", "--serviceaccount=kube-system:nodehitch-vim"); err == nil {
		t.Error("it has made itself cluster-admin")
	}
	o.doc.ClusterAccess.Role = api.ClusterAccessAdmin
	o.converged()
	can("yes", "*", "*")
	o.doc.ClusterAccess.Role = api.ClusterAccessTacker
	o.converged()
	can("no", "*", "*")

	o.kubectl("delete", "serviceaccount", "-n", "kube-system", "nodehitch-vim")
	next := o.converged().Cluster
	if next == nil || next.Token == facts.Token {
		t.Fatal("the account is another one, and the token is not")
	}
	loopback.Until(t, "the token of the deleted account works no more", func() bool { // the API server remembers tokens for 10 s
		_, err := o.as(facts.Token, "get", "namespaces")
		return err != nil
	})
	if _, err := o.as(next.Token, "get", "namespaces"); err != nil {
		t.Error(err)
	}
	record.Unauthorised(granted)
}
