package kubeapitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// patch merges what is given into an object. Server-side apply makes one if there is none.
func (s *Server) patch(w http.ResponseWriter, r *http.Request, request string) {
	var given Object
	applied := strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch")
	if err := json.NewDecoder(r.Body).Decode(&given); err != nil || r.URL.Query().Get("fieldManager") != "nodehitch" {
		Refusal(w, http.StatusBadRequest, "BadRequest", fmt.Sprint(r.URL, err))
		return
	}
	live := s.objects[r.URL.Path]
	uid := Metadata(given)["uid"]
	switch {
	case live == nil && !applied:
		Refusal(w, http.StatusNotFound, "NotFound", path.Base(r.URL.Path)+" not found")
		return
	case live != nil && uid != nil && uid != Metadata(live)["uid"]:
		Refusal(w, http.StatusConflict, "Conflict", "the uid in the precondition is another")
		return
	}
	after := merged(live, given)
	if r.URL.Query().Get("dryRun") == "All" {
		reply(w, after)
		return
	}
	s.did = append(s.did, request)
	if live == nil || !reflect.DeepEqual(after, live) {
		s.store(r.URL.Path, after)
	}
	reply(w, s.objects[r.URL.Path])
}

func (s *Server) delete(w http.ResponseWriter, r *http.Request, request string) {
	var options struct {
		Preconditions struct{ UID, ResourceVersion string }
	}
	_ = json.NewDecoder(r.Body).Decode(&options)
	live := s.objects[r.URL.Path]
	version := options.Preconditions.ResourceVersion
	switch {
	case live == nil:
		Refusal(w, http.StatusNotFound, "NotFound", path.Base(r.URL.Path)+" not found")
		return
	case options.Preconditions.UID != Metadata(live)["uid"] || version != "" && version != Metadata(live)["resourceVersion"]:
		Refusal(w, http.StatusConflict, "Conflict", "the UID or ResourceVersion in the precondition is another")
		return
	}
	s.did = append(s.did, request)
	delete(s.objects, r.URL.Path)
	reply(w, Object{"apiVersion": "v1", "kind": "Status", "status": "Success"})
}

// token gives a token of a service account.
func (s *Server) token(w http.ResponseWriter, r *http.Request, request string) {
	account := s.objects[path.Dir(r.URL.Path)]
	var given struct {
		Spec struct{ ExpirationSeconds int64 }
	}
	if err := json.NewDecoder(r.Body).Decode(&given); err != nil || account == nil {
		Refusal(w, http.StatusNotFound, "NotFound", "there is no such service account")
		return
	}
	lifetime := time.Duration(given.Spec.ExpirationSeconds) * time.Second
	if s.Lifetime > 0 {
		lifetime = min(lifetime, s.Lifetime)
	}
	s.did = append(s.did, request)
	s.made++
	reply(w, Object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "status": Object{
		"token": fmt.Sprintf("secret-token-%d", s.made), "expirationTimestamp": s.Now().Add(lifetime).UTC().Format(time.RFC3339),
	}})
}

// store gives an object its new version.
func (s *Server) store(at string, o Object) {
	s.made++
	if o["metadata"] == nil {
		o["metadata"] = Object{}
	}
	m := Metadata(o)
	m["name"], m["resourceVersion"] = path.Base(at), strconv.Itoa(s.made)
	if m["uid"] == nil {
		m["uid"] = fmt.Sprintf("uid-%d", s.made)
	}
	s.objects[at] = o
}

// merged is a deep copy of a with what b says instead.
func merged(a, b Object) Object {
	out := Object{}
	for key, value := range a {
		if m, ok := value.(Object); ok {
			value = merged(m, nil)
		}
		out[key] = value
	}
	for key, value := range b {
		if m, ok := value.(Object); ok {
			inner, _ := out[key].(Object)
			value = merged(inner, m)
		}
		out[key] = value
	}
	return out
}
