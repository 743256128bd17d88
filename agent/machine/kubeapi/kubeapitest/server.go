// Package kubeapitest is an API server in memory, for tests of steps: objects of any kind,
// server-side apply, merge patches, preconditions, selectors and tokens, as far as the steps
// can tell them from those of a real one. Package e2e/kube has the real one.
package kubeapitest

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Object is an object of Kubernetes.
type Object = map[string]any

// Server has objects by path, such as /api/v1/nodes/worker-1.
type Server struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string]Object
	made    int
	did     []string // "PATCH /api/v1/nodes/worker-1"
	down    bool
	// Before is called before each request that changes something; may be nil.
	Before func(request string)
	// Refuse answers a request in place of the server, by method and path.
	Refuse map[string]func(http.ResponseWriter)
	// Serves are the kinds of each group, by its path, such as /apis/apps/v1: the resource's name
	// by the kind, with a slash before that of one that is in no namespace.
	Serves map[string]map[string]string
	// Lifetime is what tokens get at most; 0 is what they ask for.
	Lifetime time.Duration
	// Now is the clock of tokens.
	Now func() time.Time
}

// Token is the one that the kubeconfigs have.
const Token = "opensesame"

// New is a server without objects.
func New(t testing.TB) *Server {
	s := &Server{objects: map[string]Object{}, Refuse: map[string]func(http.ResponseWriter){}, Now: time.Now}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true // as a real one
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	s.Serves = map[string]map[string]string{
		"/api/v1":       {"Node": "/nodes", "Namespace": "/namespaces", "Secret": "secrets", "ConfigMap": "configmaps", "ServiceAccount": "serviceaccounts"},
		"/apis/apps/v1": {"Deployment": "deployments", "DaemonSet": "daemonsets"},
	}
	return s
}

// discover answers which kinds a group has.
func (s *Server) discover(w http.ResponseWriter, path string) {
	list := []Object{}
	for kind, name := range s.Serves[path] {
		list = append(list, Object{"kind": kind, "name": strings.TrimPrefix(name, "/"), "namespaced": !strings.HasPrefix(name, "/")},
			Object{"kind": kind, "name": strings.TrimPrefix(name, "/") + "/status", "namespaced": true})
	}
	reply(w, Object{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/"), "resources": list})
}

// Kubeconfig has the user's members, such as "token: x"; "" is a user that may do everything.
func (s *Server) Kubeconfig(user string) string {
	if user == "" {
		user = "token: " + Token
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {%s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, s.URL, base64.StdEncoding.EncodeToString(ca), user)
}

// Put makes or replaces an object as others do.
func (s *Server) Put(at string, o Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(at, merged(o, nil))
}

// Get is an object, nil if there is none.
func (s *Server) Get(at string) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[at] == nil {
		return nil
	}
	return merged(s.objects[at], nil)
}

// Remove removes an object as others do.
func (s *Server) Remove(at string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, at)
}

// Paths are those of all objects, in order.
func (s *Server) Paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}

// Did returns the requests since the last time that changed something.
func (s *Server) Did() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	did := s.did
	s.did = nil
	return did
}

// Down lets no request have an answer from now on. The server keeps its port: after Close, a server
// of another test, whose certificate is the same, could get it and answer.
func (s *Server) Down() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = true
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := r.Method + " " + r.URL.Path
	if r.Method != http.MethodGet && s.Before != nil {
		s.Before(request)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down:
		panic(http.ErrAbortHandler)
	case s.Refuse[request] != nil:
		s.Refuse[request](w)
	case r.TLS == nil || r.Header.Get("Authorization") != "Bearer "+Token && len(r.TLS.PeerCertificates) == 0:
		Refusal(w, http.StatusUnauthorized, "Unauthorized", "Unauthorized")
	case strings.HasSuffix(r.URL.Path, "/token"):
		s.token(w, r, request)
	case r.Method == http.MethodPatch:
		s.patch(w, r, request)
	case r.Method == http.MethodDelete:
		s.delete(w, r, request)
	case s.objects[r.URL.Path] != nil:
		reply(w, s.objects[r.URL.Path])
	case s.Serves[r.URL.Path] != nil:
		s.discover(w, r.URL.Path)
	case kinds[path.Base(r.URL.Path)]:
		s.list(w, r)
	default:
		Refusal(w, http.StatusNotFound, "NotFound", path.Base(r.URL.Path)+" not found")
	}
}

// kinds are the resources that are listed.
var kinds = map[string]bool{"nodes": true, "secrets": true}

// list answers those that the selectors select. What is in a list does not say what it is.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	items, left := []Object{}, ""
	label, value, _ := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
	_, kind, _ := strings.Cut(r.URL.Query().Get("fieldSelector"), "type=")
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	for _, at := range slices.Sorted(maps.Keys(s.objects)) {
		o := s.objects[at]
		labels, _ := Metadata(o)["labels"].(Object)
		if path.Dir(at) != r.URL.Path || at < r.URL.Query().Get("continue") || label != "" && labels[label] != value || kind != "" && o["type"] != kind {
			continue
		}
		if limit > 0 && len(items) == limit {
			left = at
			break
		}
		o = merged(o, nil)
		delete(o, "apiVersion")
		delete(o, "kind")
		items = append(items, o)
	}
	reply(w, Object{"apiVersion": "v1", "kind": "List", "metadata": Object{"resourceVersion": "1", "continue": left}, "items": items})
}

// Metadata is an object's.
func Metadata(o Object) Object { m, _ := o["metadata"].(Object); return m }

// Refusal is an answer that is an error.
func Refusal(w http.ResponseWriter, status int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(Object{
		"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": message,
	})
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
