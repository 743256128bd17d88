package clustermember_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi/kubeapitest"
	"github.com/nodehitch/nodehitch/agent/role/clustermember"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	serverID = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f"
	otherID  = "7f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f"
	own      = "/api/v1/nodes/worker-0"
	keyFile  = "/var/lib/kubelet/pki/kubelet-client-current.pem"
)

type rig struct {
	*testing.T
	api    *kubeapitest.Server
	m      *hosttest.Machine
	engine *converge.Engine
	doc    *api.NodeConfig
}

// worker is one with kubelet installed, which has not joined.
func worker(t *testing.T) *rig {
	r := &rig{T: t, api: kubeapitest.New(t), m: hosttest.New()}
	r.m.Units["kubelet.service"] = &hosttest.UnitState{}
	r.m.Files["/etc/systemd/system/kubelet.service"] = hosttest.FileState{Content: "[Service]\n", Mode: 0o644}
	r.doc = &api.NodeConfig{APIVersion: api.NodeConfigV1, Generation: 1, Role: api.RoleWorker, Cluster: &api.ClusterSection{
		Endpoint: "10.10.0.5:6443", PodCIDR: "10.244.0.0/16", ServiceCIDR: "10.96.0.0/12", BootstrapToken: "abcdef.0123456789abcdef",
		Masters: []api.ClusterServer{{ServerID: otherID, Name: "master_node-0", Addresses: []string{"10.10.0.5"}}},
	}}
	r.restart()
	return r
}

func (r *rig) restart() {
	r.engine = converge.New(clustermember.New(clustermember.Options{Host: r.m.Host(), ServerID: serverID, RequestLimit: 5 * time.Second}))
}

// join is what kubeadm and kubelet do.
func (r *rig) join(user string, node kubeapitest.Object) {
	r.m.Files[keyFile] = hosttest.FileState{Content: kubeapitest.KubeletPEM(r.T, user, time.Now().Add(time.Hour)), Mode: 0o600}
	r.m.Files[clustermember.Kubeconfig] = hosttest.FileState{Content: r.api.Kubeconfig("client-certificate: " + keyFile + ", client-key: " + keyFile), Mode: 0o600}
	if node != nil {
		r.api.Put(own, node)
	}
}

func (r *rig) expect(want string, parts ...string) converge.Report {
	r.Helper()
	report := r.engine.Converge(r.Context(), r.doc, converge.Options{Confirmed: true})
	c := report.Condition(api.ConditionClusterMember)
	if got := string(c.Status) + " " + c.Reason; got != want {
		r.Fatalf("the condition is %s (%s), want %s", got, c.Message, want)
	}
	for _, part := range parts {
		if !strings.Contains(c.Message, part) {
			r.Errorf("the message %q does not say %q", c.Message, part)
		}
	}
	if strings.Contains(c.Message, "0123456789abcdef") {
		r.Errorf("the message has the token: %s", c.Message)
	}
	return report
}

func (r *rig) file() (f map[string]any) {
	r.Helper()
	if err := json.Unmarshal([]byte(r.m.Files[clustermember.File].Content), &f); err != nil {
		r.Fatal(err)
	}
	return f
}

func TestTheFileHasTheSectionAndNoOtherUserReadsIt(t *testing.T) {
	r := worker(t)
	r.expect("False NotJoined")
	if mode := r.m.Files[clustermember.File].Mode; mode != 0o600 {
		t.Errorf("the mode is %04o, want 0600: it contains a token", mode)
	}
	f := r.file()
	for name, want := range map[string]any{
		"version": 1.0, "role": "worker", "serverId": serverID, "endpoint": "10.10.0.5:6443", "podCIDR": "10.244.0.0/16",
		"serviceCIDR": "10.96.0.0/12", "bootstrapToken": "abcdef.0123456789abcdef", "initialize": false,
	} {
		if f[name] != want {
			t.Errorf("%s is %v, want %v", name, f[name], want)
		}
	}
	masters, _ := f["masters"].([]any)
	if len(masters) != 1 || masters[0].(map[string]any)["serverId"] != otherID {
		t.Errorf("the masters are %v", masters)
	}
	if hash, there := f["caCertificateHash"]; there {
		t.Errorf("there is no cluster, and its hash is %v", hash)
	}
}

// The last known good may say that this machine makes the cluster, as it did a year ago.
func TestNoFileIsWrittenForADocumentFromDisk(t *testing.T) {
	r := worker(t)
	r.doc.Cluster.Initialize = true
	stored := r.engine.Converge(t.Context(), r.doc, converge.Options{})
	if c := stored.Condition(api.ConditionClusterMember); c.Reason != api.ReasonWaitingForController {
		t.Errorf("the condition is %+v", c)
	}
	if f, there := r.m.Files[clustermember.File]; there {
		t.Errorf("it wrote %s", f.Content)
	}
	r.expect("False NotJoined")
	before := r.file()
	r.join("system:node:worker-0", kubeapitest.Node(serverID, true))
	r.doc.Cluster.Initialize = false
	r.engine.Converge(t.Context(), r.doc, converge.Options{})
	if after := r.file(); after["digest"] != before["digest"] {
		t.Errorf("it wrote %v", after)
	}
	r.expect("True Joined")
	stored = r.engine.Converge(t.Context(), r.doc, converge.Options{})
	if c := stored.Condition(api.ConditionClusterMember); c.Status != api.ConditionTrue {
		t.Errorf("a member whose controller is away is %+v", c)
	}
}

func TestTheFileIsWrittenOnceForEachSection(t *testing.T) {
	r := worker(t)
	r.expect("False NotJoined")
	first := r.file()["digest"]
	before := r.m.Changes()
	for range 3 {
		r.restart()
		r.expect("False NotJoined")
	}
	if n := r.m.Changes().Since(before); !n.None() {
		t.Errorf("the second pass changed %s", n)
	}
	r.doc.Cluster.CACertificateHash = "sha256:" + strings.Repeat("0", 64)
	r.doc.Generation++
	r.expect("False NotJoined")
	if second := r.file()["digest"]; second == first || !strings.HasPrefix(second.(string), "sha256:") {
		t.Errorf("the digest is %v after %v", second, first)
	}
	r.doc.Generation++ // another section has changed
	before = r.m.Changes()
	r.expect("False NotJoined")
	if n := r.m.Changes().Since(before); !n.None() {
		t.Errorf("another section changed %s", n)
	}
	r.doc.Cluster = nil
	if report := r.engine.Converge(t.Context(), r.doc, converge.Options{}); report.Condition(api.ConditionClusterMember) != nil || report.Changed {
		t.Errorf("without a section: %+v", report.Conditions)
	}
	r.file() // the machine is a member: it stays
}

func TestTheFileIsRepaired(t *testing.T) {
	for name, state := range map[string]hosttest.FileState{"gone": {}, "others may read it": {Mode: 0o644}, "another content": {Content: "{}", Mode: 0o600}} {
		t.Run(name, func(t *testing.T) {
			r := worker(t)
			r.expect("False NotJoined")
			good := r.m.Files[clustermember.File]
			switch {
			case state.Mode == 0:
				delete(r.m.Files, clustermember.File)
			case state.Content == "":
				state.Content = good.Content
				fallthrough
			default:
				r.m.Files[clustermember.File] = state
			}
			r.expect("False NotJoined")
			if got := r.m.Files[clustermember.File]; got != good {
				t.Errorf("it is %+v", got)
			}
		})
	}
}

func TestACrashBeforeTheFileIsWritten(t *testing.T) {
	r := worker(t)
	r.m.CrashAt = 1
	r.expect("False NotJoined") // the engine takes the panic for an error
	if _, there := r.m.Files[clustermember.File]; there {
		t.Fatal("it was not before the change")
	}
	r.m.CrashAt = 0
	r.restart()
	r.expect("False NotJoined")
	r.file()
}

func TestAMachineWithoutKubeletSaysSo(t *testing.T) {
	r := worker(t)
	r.expect("False NotJoined", "no program has joined this machine", clustermember.File)
	delete(r.m.Units, "kubelet.service")
	delete(r.m.Files, "/etc/systemd/system/kubelet.service")
	r.expect("False NotJoined", "kubelet is not installed")
	r.file() // which may install it
}

func TestAMemberIsTheServersOwnNodeAndReady(t *testing.T) {
	noUUID := kubeapitest.Node("", true)
	noUUID["spec"] = kubeapitest.Object{"providerID": "openstack:///" + serverID}
	foreign := kubeapitest.Node(otherID, true)
	foreign["spec"] = kubeapitest.Object{"providerID": "openstack:///" + serverID}
	for name, c := range map[string]struct {
		user string
		node kubeapitest.Object
		want string
		says string
	}{
		"Ready":                   {"system:node:worker-0", kubeapitest.Node(serverID, true), "True Joined", "Node worker-0 is Ready"},
		"as a machine id":         {"system:node:worker-0", kubeapitest.Node(strings.ReplaceAll(serverID, "-", ""), true), "True Joined", ""},
		"in upper case":           {"system:node:worker-0", kubeapitest.Node(strings.ToUpper(serverID), true), "True Joined", ""},
		"by the cloud's id":       {"system:node:worker-0", noUUID, "True Joined", ""},
		"not Ready":               {"system:node:worker-0", kubeapitest.Node(serverID, false), "False NodeNotReady", "NodeStatusUnknown: Kubelet stopped"},
		"no Node":                 {"system:node:worker-0", nil, "False NotJoined", "has no Node worker-0"},
		"another machine's Node":  {"system:node:worker-0", foreign, "False NotJoined", "is that of another machine"},
		"the UUID is what counts": {"system:node:worker-0", kubeapitest.Node(otherID, true), "False NotJoined", serverID},
		"another user":            {"kubernetes-admin", kubeapitest.Node(serverID, true), "False NotJoined", `is for "kubernetes-admin"`},
		"a user without a name":   {"system:node:", kubeapitest.Node(serverID, true), "False NotJoined", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := worker(t)
			r.expect("False NotJoined")
			r.join(c.user, c.node)
			r.expect(c.want, c.says)
			if did := r.api.Did(); did != nil {
				t.Errorf("it changed the cluster: %q", did)
			}
		})
	}
}

// Every pass that says the same lets the next one wait longer.
func TestWaitingSaysTheSameEachTime(t *testing.T) {
	r := worker(t)
	r.join("system:node:worker-0", kubeapitest.Node(serverID, false))
	first := r.expect("False NodeNotReady").Conditions[0].Message
	if second := r.expect("False NodeNotReady").Conditions[0].Message; second != first {
		t.Errorf("it says %q, then %q", first, second)
	}
	r.api.Down()
	r.expect("False ClusterNotInstalled", "does not answer")
}

func TestTheAuthorityIsReportedOnceThereAreCredentials(t *testing.T) {
	r := worker(t)
	if report := r.expect("False NotJoined"); report.Cluster != nil {
		t.Errorf("without credentials it reports %+v", report.Cluster)
	}
	sum := sha256.Sum256(r.api.Certificate().RawSubjectPublicKeyInfo)
	want := "sha256:" + hex.EncodeToString(sum[:])
	r.join("system:node:worker-0", kubeapitest.Node(serverID, false))
	for _, reason := range []string{"False NodeNotReady", "False ClusterNotInstalled"} {
		report := r.expect(reason)
		if report.Cluster == nil || report.Cluster.CACertificateHash != want || !strings.Contains(report.Cluster.CACertificate, "BEGIN CERTIFICATE") {
			t.Fatalf("%s: it reports %+v, want %s", reason, report.Cluster, want)
		}
		if strings.Contains(report.Cluster.CACertificate, "PRIVATE") || report.Cluster.Token != "" {
			t.Errorf("it reports %+v", report.Cluster)
		}
		r.api.Refuse["GET "+own] = func(w http.ResponseWriter) {
			kubeapitest.Refusal(w, http.StatusServiceUnavailable, "ServiceUnavailable", "not now")
		}
	}
}

// The controller would refuse the whole status.
func TestAnAuthorityThatIsTooLongIsLeftOut(t *testing.T) {
	r := worker(t)
	r.join("system:node:worker-0", kubeapitest.Node(serverID, true))
	config := r.m.Files[clustermember.Kubeconfig]
	_, data, _ := strings.Cut(config.Content, "certificate-authority-data: ")
	data, _, _ = strings.Cut(data, "}")
	own, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		t.Fatal(err)
	}
	many := bytes.Repeat(own, 1+api.LongestCACertificate/len(own))
	config.Content = strings.Replace(config.Content, data, base64.StdEncoding.EncodeToString(many), 1)
	r.m.Files[clustermember.Kubeconfig] = config
	report := r.expect("True Joined", "are not reported", fmt.Sprint(len(many), " characters"))
	if report.Cluster == nil || report.Cluster.CACertificate != "" || report.Cluster.CACertificateHash == "" {
		t.Errorf("it reports %+v", report.Cluster)
	}
}

// kubelet renews its certificate in the file that the kubeconfig names.
func TestAYearLaterTheCertificateIsANewOne(t *testing.T) {
	r := worker(t)
	r.join("system:node:worker-0", kubeapitest.Node(serverID, true))
	r.expect("True Joined")
	r.m.Files[keyFile] = hosttest.FileState{Content: kubeapitest.KubeletPEM(t, "system:node:worker-0", time.Now().Add(-36*time.Hour)), Mode: 0o600}
	r.api.Refuse["GET "+own] = func(w http.ResponseWriter) {
		kubeapitest.Refusal(w, http.StatusUnauthorized, "Unauthorized", "Unauthorized")
	}
	r.expect("False ClusterNotInstalled", "whose certificate expired on ", "join the machine again")
	r.m.Files[keyFile] = hosttest.FileState{Content: kubeapitest.KubeletPEM(t, "system:node:worker-0", time.Now().Add(time.Hour)), Mode: 0o600}
	delete(r.api.Refuse, "GET "+own)
	r.expect("True Joined")
}

// A program that fails to join the machine is started again and again, and nobody reads its journal.
func TestTheFailureOfTheProgramIsShown(t *testing.T) {
	r := worker(t)
	program := &hosttest.UnitState{Said: "[preflight] Running pre-flight checks | error: token " + r.doc.Cluster.BootstrapToken + " is not known | Main process exited, code=exited, status=1/FAILURE"}
	r.m.Units["nodehitch-cluster.service"] = program
	if report := r.expect("False NotJoined"); strings.Contains(report.Condition(api.ConditionClusterMember).Message, "status=1") {
		t.Error("it shows what the program said while it runs")
	}
	program.Sub = "auto-restart"
	r.expect("False NotJoined", "no program has joined this machine", "nodehitch-cluster.service has failed", "error: token abcdef.(redacted) is not known", "status=1/FAILURE")
	program.Said = strings.Repeat("x", 5000) + " the end"
	if report := r.expect("False NotJoined", "…xxx", "the end"); len(report.Condition(api.ConditionClusterMember).Message) > 1200 {
		t.Error("the message has no bound")
	}
	r.join("system:node:worker-0", kubeapitest.Node(serverID, true))
	r.expect("True Joined")
}
