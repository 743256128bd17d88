// Package openstacktest is a cloud in the memory of a test: the few calls of Keystone,
// Heat, Nova, Neutron and Cinder that the controller makes, with answers of the same
// shape as the real ones (TestTheFakeAnswersLikeTheRealOne compares them with recorded
// ones), with faults on order, and with a count of the calls.
package openstacktest

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Who may log in, and to what.
const (
	User      = "nodehitch"
	Password  = "pass-6b1f0c5e"
	AppID     = "21dced0fd20347869b93710d2b98aae0"
	AppSecret = "secret-93ab4f10"
	Project   = "vnfs"
	ProjectID = "6a9ddc1603a54f77bb6ef0ad942d7538"
	Region    = "RegionOne"
)

// The calls that the cloud answers, as openstack.Error and the metric name them.
const (
	Login          = "POST /identity/v3/auth/tokens"
	Stacks         = "GET /orchestration/v1/{project_id}/stacks"
	Resources      = "GET /orchestration/v1/{project_id}/stacks/{name}/{id}/resources"
	Servers        = "GET /compute/v2.1/servers/detail"
	ServerByID     = "GET /compute/v2.1/servers/{server_id}"
	SetMetadata    = "PUT /compute/v2.1/servers/{server_id}/metadata/{key}"
	DeleteMetadata = "DELETE /compute/v2.1/servers/{server_id}/metadata/{key}"
	Ports          = "GET /network/v2.0/ports"
	FloatingIPs    = "GET /network/v2.0/floatingips"
	Volumes        = "GET /volume/v3/{project_id}/volumes/detail"
)

// Cloud is a cloud with one project. Its methods may be called at the same time.
type Cloud struct {
	// URL is without a slash at its end.
	URL string
	// PageSize is how many things a page of Nova, Neutron and Cinder has; a thousand
	// at first. Set it before the first call.
	PageSize int

	server *httptest.Server
	mu     sync.Mutex
	state  state
	// tokens are those that are good.
	tokens map[string]bool
	issued int
	calls  map[string]int
	faults map[string]*Fault
}

// state is what there is, in the order in which it was put.
type state struct {
	stacks   []Stack
	servers  []Server
	ports    []Port
	floating []FloatingIP
	volumes  []Volume
}

// Start has a cloud for the time of the test.
func Start(t testing.TB) *Cloud {
	c := &Cloud{}
	c.start(t, httptest.NewServer(c.routes()))
	return c
}

// StartTLS has one with a certificate that no system trusts; CACert is to be trusted.
func StartTLS(t testing.TB) *Cloud {
	c := &Cloud{}
	s := httptest.NewUnstartedServer(c.routes())
	s.Config.ErrorLog = quiet()
	s.StartTLS()
	c.start(t, s)
	return c
}

func (c *Cloud) start(t testing.TB, s *httptest.Server) {
	c.PageSize, c.server, c.URL = 1000, s, s.URL
	c.tokens, c.calls, c.faults = map[string]bool{}, map[string]int{}, map[string]*Fault{}
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
}

func (c *Cloud) routes() http.Handler {
	mux := http.NewServeMux()
	for call, answer := range map[string]func(*http.Request) reply{
		Stacks: c.listStacks, Resources: c.listResources,
		Servers: c.listServers, ServerByID: c.showServer, SetMetadata: c.setMetadata, DeleteMetadata: c.deleteMetadata,
		Ports: c.listPorts, FloatingIPs: c.listFloatingIPs, Volumes: c.listVolumes,
	} {
		mux.Handle(call, c.guarded(call, answer))
	}
	mux.Handle(Login, c.counted(Login, c.login))
	return mux
}

// Calls is how often each call was made, whatever its outcome, since the start or the
// last Forget.
func (c *Cloud) Calls() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]int{}
	for call, n := range c.calls {
		out[call] = n
	}
	return out
}

// Forget has the count begin anew.
func (c *Cloud) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.calls)
}

// ExpireTokens makes every token that was given out worthless.
func (c *Cloud) ExpireTokens() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.tokens)
}
