package persistentvolume_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"
)

func (s *apiServer) apply(w http.ResponseWriter, r *http.Request, name, request string) {
	var given object
	if err := json.NewDecoder(r.Body).Decode(&given); err != nil || r.URL.Query().Get("fieldManager") != "nodehitch" {
		refuse(w, http.StatusBadRequest, "BadRequest", fmt.Sprint(r.URL, err))
		return
	}
	live := s.volumes[name]
	s.lastApplied = given
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

// bind binds the volume to a claim.
func (s *apiServer) bind(name, namespace, claim string) {
	s.change(name, func(v object) {
		spec(v)["claimRef"] = object{"namespace": namespace, "name": claim}
		v["status"] = object{"phase": "Bound"}
	})
}
