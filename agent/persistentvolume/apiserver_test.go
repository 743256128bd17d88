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
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

type object = map[string]any

// apiServer is the part of an API server that has PersistentVolumes, with server-side
// apply, dry runs, preconditions and finalizers as far as the step can tell them from
// those of a real one.
type apiServer struct {
	*httptest.Server
	mu      sync.Mutex
	volumes map[string]object
	made    int
	// did has the requests that change something, such as "apply pv1"; asked has all.
	did, asked []string
	// before is called before each request, with its line: what else happens meanwhile.
	before func(request string)
	// closed is told of a connection that has ended.
	closed chan struct{}
	// answer is the status of every answer, where it is not 0.
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

func (s *apiServer) apply(w http.ResponseWriter, r *http.Request, name, request string) {
	var given object
	if err := json.NewDecoder(r.Body).Decode(&given); err != nil || r.URL.Query().Get("fieldManager") != "nodehitch" {
		refuse(w, http.StatusBadRequest, "BadRequest", fmt.Sprint(r.URL, err))
		return
	}
	live := s.volumes[name]
	after := merged(live, given)
	switch at := metadata(given)["resourceVersion"]; {
	case at != nil && (live == nil || at != metadata(live)["resourceVersion"]):
		refuse(w, http.StatusConflict, "Conflict", "the object has been modified")
		return
	case live != nil && r.URL.Query().Get("force") != "true" && !reflect.DeepEqual(after, live):
		refuse(w, http.StatusConflict, "Conflict", "conflict with \"kubectl\"")
		return
	case live != nil && !reflect.DeepEqual(spec(after)["nfs"], spec(live)["nfs"]):
		refuse(w, http.StatusUnprocessableEntity, "Invalid", "spec.persistentvolumesource is immutable after creation")
		return
	case spec(after)["capacity"] == nil:
		refuse(w, http.StatusUnprocessableEntity, "Invalid", "spec.capacity: Required value")
		return
	}
	if strings.HasPrefix(request, "apply") {
		s.did = append(s.did, request)
		if live == nil || !reflect.DeepEqual(after, live) {
			s.store(name, after)
		}
		after = s.volumes[name]
	}
	reply(w, after)
}

// store gives a volume its new version, and what the cluster gives to each.
func (s *apiServer) store(name string, v object) {
	s.made++
	m := metadata(v)
	m["resourceVersion"] = strconv.Itoa(s.made)
	if m["uid"] == nil {
		m["uid"] = fmt.Sprintf("uid-%d", s.made)
		v["status"] = object{"phase": "Available"}
		m["finalizers"] = []any{"kubernetes.io/pv-protection"}
	}
	s.volumes[name] = v
}

func (s *apiServer) delete(w http.ResponseWriter, r *http.Request, name string) {
	var options struct {
		Preconditions struct{ UID, ResourceVersion string }
	}
	_ = json.NewDecoder(r.Body).Decode(&options)
	m := metadata(s.volumes[name])
	if options.Preconditions.UID != m["uid"] || options.Preconditions.ResourceVersion != m["resourceVersion"] {
		refuse(w, http.StatusConflict, "Conflict", "the UID or ResourceVersion in the precondition is another")
		return
	}
	s.did = append(s.did, "delete "+name)
	if s.volumes[name]["status"].(object)["phase"] == "Bound" || len(m["finalizers"].([]any)) > 1 {
		m["deletionTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	} else {
		delete(s.volumes, name)
	}
	reply(w, object{"apiVersion": "v1", "kind": "Status", "status": "Success"})
}

// change changes a volume as others do.
func (s *apiServer) change(name string, f func(v object)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := merged(s.volumes[name], object{})
	f(v)
	s.store(name, v)
}

// bind has the volume be bound to a claim.
func (s *apiServer) bind(name, namespace, claim string) {
	s.change(name, func(v object) {
		spec(v)["claimRef"] = object{"namespace": namespace, "name": claim}
		v["status"] = object{"phase": "Bound"}
	})
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
