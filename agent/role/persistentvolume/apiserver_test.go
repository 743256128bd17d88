package persistentvolume_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

type object = map[string]any

// apiServer is the part of an API server that has PersistentVolumes, with server-side
// apply, dry runs, preconditions and finalizers as far as the step can tell them from
// those of a real one.
type apiServer struct {
	*httptest.Server
	mu      sync.Mutex
	volumes map[string]object
	// lastApplied is the body of the last apply, also of a dry run.
	lastApplied object
	made        int
	// did has the requests that change something, such as "apply pv1"; asked has all.
	did, asked []string
	// before is called before each request, with its line: what else happens meanwhile.
	before func(request string)
	// closed is told of a connection that has ended.
	closed chan struct{}
	// answer is the status of every answer, if it is not 0.
	answer int
	// refusal answers a request in place of the server, afterwards once it has done it.
	refusal, afterwards map[string]func(w http.ResponseWriter)
}

const token = "opensesame"

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{volumes: map[string]object{}, closed: make(chan struct{}, 1), refusal: map[string]func(http.ResponseWriter){}}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true // as a real one
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			select {
			case s.closed <- struct{}{}:
			default:
			}
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// kubeconfig is one with a token that works.
func (s *apiServer) kubeconfig() string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {token: %s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, s.URL, base64.StdEncoding.EncodeToString(ca), token)
}

const prefix = "/api/v1/persistentvolumes"

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, prefix), "/")
	var request string
	switch dry := r.URL.Query().Has("dryRun"); {
	case r.Method == http.MethodPatch && !dry:
		request = "apply " + name
	case r.Method == http.MethodPatch:
		request = "try " + name
	case name == "":
		request = "list"
	default:
		request = strings.ToLower(r.Method) + " " + name
	}
	if s.before != nil {
		s.before(request)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, request)
	switch {
	case s.answer != 0:
		refuse(w, s.answer, "ServiceUnavailable", "not now")
	case s.refusal[request] != nil:
		s.refusal[request](w)
	case s.afterwards[request] != nil:
		s.serve(httptest.NewRecorder(), r, name, request)
		s.afterwards[request](w)
	default:
		s.serve(w, r, name, request)
	}
}

func (s *apiServer) serve(w http.ResponseWriter, r *http.Request, name, request string) {
	switch {
	case r.Header.Get("Authorization") != "Bearer "+token:
		refuse(w, http.StatusUnauthorized, "Unauthorized", "Unauthorized")
	case name == "":
		s.list(w, r)
	case r.Method == http.MethodPatch:
		s.apply(w, r, name, request)
	case s.volumes[name] == nil:
		refuse(w, http.StatusNotFound, "NotFound", "persistentvolumes \""+name+"\" not found")
	case r.Method == http.MethodDelete:
		s.delete(w, r, name)
	default:
		reply(w, s.volumes[name])
	}
}

// list answers in pages. What is in a list does not say what it is.
func (s *apiServer) list(w http.ResponseWriter, r *http.Request) {
	items, left := []object{}, ""
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	for _, key := range slices.Sorted(maps.Keys(s.volumes)) {
		if len(items) == limit {
			left = key
			break
		}
		if key >= r.URL.Query().Get("continue") {
			v := merged(s.volumes[key], nil)
			delete(v, "apiVersion")
			delete(v, "kind")
			items = append(items, v)
		}
	}
	reply(w, object{"apiVersion": "v1", "kind": "PersistentVolumeList", "metadata": object{"resourceVersion": "1", "continue": left}, "items": items})
}

func metadata(v object) object { m, _ := v["metadata"].(object); return m }
func spec(v object) object     { m, _ := v["spec"].(object); return m }

// merged is a deep copy of a with what b says instead.
func merged(a, b object) object {
	out := object{}
	for key, value := range a {
		if m, ok := value.(object); ok {
			value = merged(m, nil)
		}
		out[key] = value
	}
	for key, value := range b {
		if m, ok := value.(object); ok {
			inner, _ := out[key].(object)
			value = merged(inner, m)
		}
		out[key] = value
	}
	return out
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object{
		"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": message,
	})
}
