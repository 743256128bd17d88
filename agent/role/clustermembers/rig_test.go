package clustermembers_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi/kubeapitest"
	"github.com/nodehitch/nodehitch/agent/role/clustermembers"
	"github.com/nodehitch/nodehitch/agent/role/kubernetes/kubeadm"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	nodes   = "/api/v1/nodes/"
	secrets = "/api/v1/namespaces/kube-system/secrets/bootstrap-token-"
)

// id is the n-th server's, and token its token, which has the id "token<n>".
func id(n int) string    { return fmt.Sprintf("6f1c1d4e-8a5b-4c0e-9d1f-%012d", n) }
func token(n int) string { return fmt.Sprintf("token%d.secretsecretsec%d", n, n) }

// rig is the master that speaks for the cluster. Its Node, of server 0, is the only one.
type rig struct {
	*testing.T
	api  *kubeapitest.Server
	etcd *etcdServer
	m    *hosttest.Machine
	step converge.Step
	doc  *api.NodeConfig
	now  time.Time
}

// owner has the document with n members.
func owner(t *testing.T, n int) *rig {
	r := &rig{T: t, api: kubeapitest.New(t), m: hosttest.New(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	r.m.Files[kubeapi.AdminKubeconfig] = hosttest.FileState{Content: r.api.Kubeconfig(""), Mode: 0o600}
	r.etcd = newEtcd(t, r.m)
	r.doc = &api.NodeConfig{APIVersion: api.NodeConfigV1, Generation: 1, Role: api.RoleMaster, ClusterMembers: &api.ClusterMembersSection{Members: []api.ClusterMember{}}}
	for i := range n {
		r.doc.ClusterMembers.Members = append(r.doc.ClusterMembers.Members, api.ClusterMember{
			ServerID: id(i), Name: fmt.Sprintf("server-%d", i), Addresses: []string{fmt.Sprintf("10.10.0.%d", i)}, Role: api.RoleMaster, BootstrapToken: token(i),
		})
	}
	r.node(0, true)
	r.restart()
	return r
}

// restart makes an agent without memory.
func (r *rig) restart() {
	r.step = clustermembers.New(clustermembers.Options{
		Host: r.m.Host(), Kubeadm: kubeadm.New(kubeadm.Options{Host: r.m.Host(), StateDirectory: "/var/lib/nodehitch/agent", ServerID: id(0)}), RequestLimit: 5 * time.Second, EtcdEndpoint: r.etcd.URL, Now: func() time.Time { return r.now },
	})
}

// node makes the Node server-<n> of the n-th server, annotated if it is not the own one.
func (r *rig) node(n int, ready bool) {
	o := kubeapitest.Node(id(n), ready, fmt.Sprintf("10.10.0.%d", n))
	kubeapitest.Metadata(o)["annotations"] = kubeapitest.Object{kubeapi.ServerIDAnnotation: id(n)}
	r.api.Put(fmt.Sprint(nodes, "server-", n), o)
}

// drop takes the last member from the document.
func (r *rig) drop() {
	m := r.doc.ClusterMembers.Members
	r.doc.ClusterMembers.Members = m[:len(m)-1]
}

func (r *rig) pass(confirmed bool) *converge.Report {
	report := converge.New(r.step).Converge(r.Context(), r.doc, converge.Options{Confirmed: confirmed})
	return &report
}

func (r *rig) expect(want string, parts ...string) {
	r.Helper()
	c := r.pass(true).Condition(api.ConditionClusterMembersCurrent)
	if got := string(c.Status) + " " + c.Reason; got != want {
		r.Fatalf("the condition is %s (%s), want %s", got, c.Message, want)
	}
	for _, part := range parts {
		if !strings.Contains(c.Message, part) {
			r.Errorf("the message %q does not say %q", c.Message, part)
		}
	}
	if strings.Contains(c.Message, "secretsecret") {
		r.Errorf("the message has a token: %s", c.Message)
	}
}

// did compares the changes since the last time, of the cluster and then of etcd.
func (r *rig) did(want ...string) {
	r.Helper()
	got := append(r.api.Did(), r.etcd.removed()...)
	if !slices.Equal(got, want) {
		r.Errorf("did %q, want %q", got, want)
	}
}

// has compares what is in the cluster, Nodes by their names and tokens by their ids, in order.
func (r *rig) has(want ...string) {
	r.Helper()
	if got := r.names(); !slices.Equal(got, want) {
		r.Errorf("the cluster has %q, want %q", got, want)
	}
}

func (r *rig) names() []string {
	names := r.api.Paths()
	for i, each := range names {
		names[i] = strings.TrimPrefix(strings.TrimPrefix(each, nodes), secrets)
	}
	slices.Sort(names)
	return names
}

// etcdServer is the JSON gateway of etcd, with a member for each master.
type etcdServer struct {
	*httptest.Server
	mu      sync.Mutex
	members []map[string]any
	sick    map[int]bool // the members that are not healthy
	gone    []string
	refuse  string // what it says to a removal
}

func newEtcd(t *testing.T, m *hosttest.Machine) *etcdServer {
	s := &etcdServer{sick: map[int]bool{}}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	for path, content := range kubeapitest.EtcdFiles(t, s.Server) {
		m.Files[path] = hosttest.FileState{Content: content, Mode: 0o600}
	}
	return s
}

// join adds the member of the n-th master; without a name if it has not started.
func (s *etcdServer) join(n int, started bool) {
	m := map[string]any{"ID": fmt.Sprint(n), "peerURLs": []string{fmt.Sprintf("https://10.10.0.%d:2380", n)}}
	if started {
		m["name"], m["clientURLs"] = fmt.Sprintf("server-%d", n), []string{fmt.Sprint(s.URL, "/", n)}
	}
	s.members = append(s.members, m)
}

func (s *etcdServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var given struct{ ID string }
	_ = json.NewDecoder(r.Body).Decode(&given)
	var member int
	if n, _ := fmt.Sscanf(r.URL.Path, "/%d/health", &member); n == 1 {
		_ = json.NewEncoder(w).Encode(map[string]any{"health": fmt.Sprint(!s.sick[member]), "reason": "RAFT NO LEADER"})
		return
	}
	switch r.URL.Path {
	case "/v3/cluster/member/list":
		_ = json.NewEncoder(w).Encode(map[string]any{"header": map[string]any{}, "members": s.members})
	case "/v3/cluster/member/remove":
		if s.refuse != "" {
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]any{"code": 9, "message": s.refuse})
			return
		}
		s.gone = append(s.gone, "remove etcd "+given.ID)
		s.members = slices.DeleteFunc(s.members, func(m map[string]any) bool { return m["ID"] == given.ID })
		_, _ = w.Write([]byte("{}"))
	}
}

func (s *etcdServer) removed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := s.gone
	s.gone = nil
	return gone
}
