package kubernetes_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/connection/files"
	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi/kubeapitest"
	"github.com/nodehitch/nodehitch/agent/role/clustermember"
	"github.com/nodehitch/nodehitch/agent/role/kubernetes"
	"github.com/nodehitch/nodehitch/agent/role/kubernetes/kubeadm"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	state    = "/var/lib/nodehitch/agent"
	serverID = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f"
	otherID  = "7f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f"
	version  = "1.34.4"
	own      = "/api/v1/nodes/server-0"
	keyFile  = "/var/lib/kubelet/pki/kubelet-client-current.pem"
	caFile   = "/etc/kubernetes/pki/ca.crt"
	coredns  = "/apis/apps/v1/namespaces/kube-system/deployments/coredns"
)

// The secrets of the document.
const (
	token          = "abcdef.0123456789abcdef"
	certificateKey = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
)

// rig is a machine with kubeadm and containerd, and the real engine over the real steps.
type rig struct {
	*testing.T
	m      *hosttest.Machine
	api    *kubeapitest.Server
	etcd   *etcdServer
	files  *files.Store
	doc    *api.NodeConfig
	engine *converge.Engine
	// address is the API server's, and hash that of its authority.
	address netip.AddrPort
	hash    string
	// clock is the machine's.
	clock time.Time
}

// machine has a role. It is no member yet.
func machine(t *testing.T, role api.Role) *rig {
	r := &rig{T: t, api: kubeapitest.New(t), files: files.New(t.TempDir(), slog.New(slog.DiscardHandler)), clock: time.Now()}
	r.m = hosttest.New(hosttest.Kubernetes(version), hosttest.Runs("containerd.service", "/usr/bin/containerd"))
	r.m.Containerd = "1.7.24"
	r.m.ContainerdConfig = func(string, map[string]hosttest.FileState) ([]byte, error) {
		return []byte("version = 3\n[plugins.'io.containerd.cri.v1.images']\n[plugins.'io.containerd.grpc.v1.cri']\n"), nil
	}
	r.m.Kubernetes.Leaves, r.m.Kubernetes.Finds = r.leaves, r.finds
	r.m.Told = func(_, unit string) {
		if unit == "kubelet.service" {
			r.node()
		}
	}
	r.m.Clock = r.now
	u, err := url.Parse(r.api.URL)
	if err != nil {
		t.Fatal(err)
	}
	r.address = netip.MustParseAddrPort(u.Host)
	sum := sha256.Sum256(r.api.Certificate().RawSubjectPublicKeyInfo)
	r.hash = "sha256:" + hex.EncodeToString(sum[:])
	r.doc = &api.NodeConfig{
		APIVersion: api.NodeConfigV1, Generation: 1, Role: role,
		Kubernetes: &api.KubernetesSection{Version: version},
		Cluster: &api.ClusterSection{
			Endpoint: r.address.String(), PodCIDR: "10.244.0.0/16", ServiceCIDR: "10.96.0.0/12", BootstrapToken: token,
			Masters: []api.ClusterServer{{ServerID: otherID, Name: "master_node-1", Addresses: []string{"192.0.2.9"}}},
		},
	}
	if role == api.RoleMaster {
		r.doc.Cluster.CertificateKey = certificateKey
		r.doc.ControlPlane = &api.ControlPlaneSection{}
		r.doc.Cluster.Masters = append(r.doc.Cluster.Masters, api.ClusterServer{ServerID: serverID, Name: "master_node-0", Addresses: []string{r.address.Addr().String()}})
		r.etcd = newEtcd(t, r.m)
		for _, port := range []int{2381, 10257, 10259} { // etcd, controller manager, scheduler
			r.m.Answers[port] = host.Answer{Status: http.StatusOK, Body: "ok"}
		}
		r.readyz(http.StatusOK, "[+]ping ok\n[+]etcd ok\nreadyz check passed\n")
	}
	r.restart()
	return r
}

// first is the master that makes the cluster.
func first(t *testing.T) *rig {
	r := machine(t, api.RoleMaster)
	r.doc.Cluster.Initialize = true
	return r
}

// second is a machine that joins the cluster of another master.
func second(t *testing.T, role api.Role) *rig {
	r := machine(t, role)
	r.doc.Cluster.CACertificateHash = r.hash
	return r
}

// readyz is what the API server says of itself.
func (r *rig) readyz(status int, said string) {
	r.api.Refuse["GET /readyz"] = func(w http.ResponseWriter) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(said))
	}
}

// node is what kubelet makes of this machine's Node when it starts.
func (r *rig) node() {
	kubelet := r.m.Kubernetes.Kubelet
	if f, ok := r.m.Files["/usr/local/bin/kubelet"]; ok {
		_, kubelet, _ = strings.Cut(f.Content, "v")
	}
	node := kubeapitest.Node(serverID, true)
	node["status"].(kubeapitest.Object)["nodeInfo"].(kubeapitest.Object)["kubeletVersion"] = "v" + kubelet
	r.api.Put(own, node)
}

func (r *rig) now() time.Time { return r.clock }

// restart is a new process of the agent on the same machine.
func (r *rig) restart() {
	r.engine = converge.New(r.steps()...)
}

func (r *rig) steps() []converge.Step {
	h := r.m.Host()
	etcd := ""
	if r.etcd != nil {
		etcd = r.etcd.URL
	}
	joining := kubeadm.New(kubeadm.Options{Host: h, Files: r.files, StateDirectory: state, ServerID: serverID, EtcdEndpoint: etcd, Now: r.now})
	o := kubernetes.Options{Host: h, Kubeadm: joining, Files: r.files, RequestLimit: 5 * time.Second, EtcdEndpoint: etcd, Now: r.now}
	steps := append(kubernetes.BeforeJoining(o), clustermember.New(clustermember.Options{Host: h, Kubeadm: joining, ServerID: serverID, RequestLimit: 5 * time.Second}))
	return append(steps, kubernetes.AfterJoining(o)...)
}

// bootstrapFile has kubelet's token, etcdManifest is that of this master's etcd, and wal a file of
// its data.
const (
	bootstrapFile = "/etc/kubernetes/bootstrap-kubelet.conf"
	etcdManifest  = "/etc/kubernetes/manifests/etcd.yaml"
	wal           = "/var/lib/etcd/member/wal/0000000000000000-0000000000000000.wal"
)

// leaves are the files that kubeadm and the kubelet that it starts make, in their order.
func (r *rig) leaves(run hosttest.KubeadmRun) []hosttest.LeftFile {
	secret := func(path, content string) hosttest.LeftFile {
		return hosttest.LeftFile{Path: path, FileState: hosttest.FileState{Content: content, Mode: 0o600}}
	}
	noBootstrap := func() { delete(r.m.Files, bootstrapFile) }
	ca := secret(caFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.api.Certificate().Raw})))
	caKey := secret("/etc/kubernetes/pki/ca.key", "key")
	admin := secret(kubeapi.AdminKubeconfig, r.api.Kubeconfig(""))
	bootstrap := secret(bootstrapFile, "token: "+token)
	config := secret("/var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\n")
	key := secret(keyFile, kubeapitest.KubeletPEM(r.T, "system:node:server-0", time.Now().Add(time.Hour)))
	key.Durable = true
	kubelet := secret(kubeadm.KubeletKubeconfig, r.api.Kubeconfig("client-certificate: "+keyFile+", client-key: "+keyFile))
	etcd := secret(etcdManifest, "kind: Pod")
	data := secret(wal, "data")
	data.Durable = true
	joined := secret("/var/lib/kubelet/joined", "end") // the end of a run, which leaves no file in truth
	joined.Durable = true
	discovery := at(run.Document("JoinConfiguration"), "discovery")
	switch {
	case run.Verb == "init":
		key.Kubelet, key.Then = true, r.node
		return []hosttest.LeftFile{ca, caKey, admin, kubelet, etcd, config, key, data, joined}
	case strings.HasPrefix(run.Verb, "upgrade"):
		return r.upgraded(run)
	case run.Verb == "renew":
		return r.certificates()
	case run.Verb == "etcd":
		return []hosttest.LeftFile{etcd}
	case run.Verb == "join" && at(discovery.(object), "file") != nil:
		return []hosttest.LeftFile{joined}
	case run.Verb == "join" && run.Document("JoinConfiguration")["controlPlane"] != nil:
		kubelet.Kubelet, key.Then = true, func() { r.node(); noBootstrap() }
		return []hosttest.LeftFile{ca, caKey, admin, bootstrap, config, kubelet, etcd, data, key, joined}
	case run.Verb == "join":
		kubelet.Kubelet, key.Then, joined.Then = true, r.node, noBootstrap
		return []hosttest.LeftFile{bootstrap, ca, config, kubelet, key, joined}
	}
	return nil
}

// finds is what kubeadm prints if it does not go on: a certificate or a kubeconfig that is there
// without content is not made anew, and a server that has a Node has no token any more.
func (r *rig) finds(run hosttest.KubeadmRun) string {
	if strings.HasPrefix(run.Verb, "upgrade") && r.doc.Role == api.RoleMaster && r.m.Files[apiserver].Content == "" {
		return "error: error execution phase control-plane: failed to read manifest for " + apiserver + stack
	}
	if run.Verb != "init" && run.Verb != "join" {
		return ""
	}
	discovery, _ := at(run.Document("JoinConfiguration"), "discovery").(object)
	if discovery["bootstrapToken"] != nil && r.api.Get(own) != nil {
		return "error: error execution phase preflight: couldn't validate the identity of the API Server: could not find a JWS signature in the cluster-info ConfigMap for token ID" + stack
	}
	for path, f := range r.m.Files {
		if f.Content == "" && discovery["file"] == nil && path != bootstrapFile && slices.Contains([]string{".crt", ".key", ".conf"}, filepath.Ext(path)) {
			return "error: error execution phase certs/ca: failure loading ca certificate: error reading " + path + ": data does not contain any valid RSA or ECDSA certificates" + stack
		}
	}
	return ""
}

// whole wants no file of kubeadm's or kubelet's without content.
func (r *rig) whole() {
	r.Helper()
	for path, f := range r.m.Files {
		if f.Content == "" && (strings.HasPrefix(path, "/etc/kubernetes/") || strings.HasPrefix(path, "/var/lib/kubelet/")) {
			r.Errorf("%s has no content", path)
		}
	}
}

func (r *rig) converge() converge.Report {
	return r.engine.Converge(r.Context(), r.doc, converge.Options{Confirmed: true})
}

// expect converges, compares the condition, and wants words in its message.
func (r *rig) expect(condition, want string, words ...string) converge.Report {
	r.Helper()
	report := r.converge()
	c := report.Condition(condition)
	if c == nil {
		r.Fatalf("%s is not reported\ntrace: %s", condition, strings.Join(r.m.Trace, "\n       "))
	}
	if got := string(c.Status) + " " + c.Reason; got != want {
		r.Errorf("%s is %s (%s), want %s\ntrace: %s", condition, got, c.Message, want, strings.Join(r.m.Trace, "\n       "))
	}
	for _, word := range words {
		if !strings.Contains(c.Message, word) {
			r.Errorf("the message %q does not have %q", c.Message, word)
		}
	}
	r.noSecret(report)
	return report
}

// noSecret wants no secret in a report, or in a file that others read.
func (r *rig) noSecret(report converge.Report) {
	r.Helper()
	text := fmt.Sprintf("%+v", report.Conditions)
	for _, result := range report.Results {
		for _, a := range result.Planned {
			text += a.Summary
		}
	}
	for path, f := range r.m.Files {
		if f.Mode&0o077 != 0 {
			text += path + f.Content
		}
	}
	for _, secret := range []string{token, "0123456789abcdef", certificateKey} {
		if strings.Contains(text, secret) {
			r.Errorf("%s is in what others read: %s", secret, text)
		}
	}
}

// idle converges once more and wants nothing to be done.
func (r *rig) idle() {
	r.Helper()
	before := r.m.Changes()
	report := r.converge()
	if since := r.m.Changes().Since(before); report.Changed || !since.None() {
		r.Errorf("a converged machine was changed: %s\n%+v", since, report.Results)
	}
	if did := r.api.Did(); did != nil {
		r.Errorf("it changed the cluster: %q", did)
	}
}

// runs are the kubeadm runs since it was last asked.
func (r *rig) runs() []hosttest.KubeadmRun {
	runs := r.m.Kubernetes.Runs
	r.m.Kubernetes.Runs = nil
	return runs
}

// verbs are those of runs.
func verbs(runs []hosttest.KubeadmRun) (all string) {
	for _, run := range runs {
		all += run.Verb + " "
	}
	return strings.TrimSpace(all)
}

// give makes a file one that the agent has downloaded.
func (r *rig) give(content string) *api.FileReference {
	r.Helper()
	sum := sha256.Sum256([]byte(content))
	ref := &api.FileReference{Sha256: hex.EncodeToString(sum[:]), SizeBytes: int64(len(content))}
	if err := os.MkdirAll(r.files.Directory, 0o700); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(r.files.Path(*ref), []byte(content), 0o600); err != nil {
		r.Fatal(err)
	}
	return ref
}

// etcdServer is the etcd of this master.
type etcdServer struct {
	*httptest.Server
	status int
	said   map[string]any
	// members are those that it lists; nil if it refuses to, as one without a vote.
	members []map[string]any
	// parts are those of a snapshot.
	parts []string
}

func newEtcd(t *testing.T, m *hosttest.Machine) *etcdServer {
	s := &etcdServer{status: http.StatusOK, said: map[string]any{"health": "true"}}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	for path, content := range kubeapitest.EtcdFiles(t, s.Server) {
		m.Files[path] = hosttest.FileState{Content: content, Mode: 0o600}
	}
	return s
}

func (s *etcdServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/health":
	case r.URL.Path == "/v3/maintenance/snapshot":
		for _, part := range s.parts {
			_, _ = fmt.Fprintln(w, part)
		}
		return
	case s.members == nil:
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(w).Encode(map[string]any{"code": 14, "message": "etcdserver: rpc not supported for learner"})
		return
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"members": s.members})
		return
	}
	w.WriteHeader(s.status)
	_ = json.NewEncoder(w).Encode(s.said)
}
