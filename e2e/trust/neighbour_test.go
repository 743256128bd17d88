package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestNeighbours(t *testing.T) {
	w := newTarget(t, loopback.Options{})
	run(t, w, []trial{
		{"neighbour: configuration", "a node gets its own configuration, and with no request another's", othersConfiguration},
		{"neighbour: status", "what a node reports changes no other node", othersStatus},
		{"neighbour: format of a volume", "no permit, start or end of a format for the volume of another node or instance; the answer does not show that it exists", othersFormat},
		{"neighbour: files", "a node reads no file that its configuration does not name, its own instance's package included", othersFiles},
	})
}

func othersConfiguration(a *attempt) {
	storage := a.w.enrolled(a.w.other, a.w.other.storage)
	worker := a.w.enrolled(a.w.other, a.w.other.worker)
	foreign := a.w.enrolled(a.w.ours, a.w.ours.worker)
	own := storage.config()
	a.allowed("its own", own, http.StatusOK)
	if !strings.Contains(own.body, a.w.other.volume) {
		a.Fatalf("the storage server's configuration names no volume: %s", own.body)
	}
	theirs := map[string]string{"the volume": a.w.other.volume, "its exports": "/volume/nfs"}
	for name, m := range map[string]*machine{"a worker of the same instance": worker, "a node of another instance": foreign} {
		for _, headers := range [][]string{nil, {"If-None-Match: " + own.header.Get("ETag")}, {"X-Node-Id: " + storage.id},
			{"X-Forwarded-For: 10.10.0.5"}, {"X-Forwarded-Client-Cert: URI=urn:nodehitch:node:" + storage.id}, {"X-SSL-Client-Cert: " + storage.id}} {
			got := m.call(http.MethodGet, "/v1/node/config", "", headers...)
			a.allowed(name, got, http.StatusOK)
			a.mustNotHold("the configuration of "+name, got.body, theirs)
		}
		for _, path := range []string{"/v1/node/config?nodeId=" + storage.id, "/v1/node/config?node=" + storage.id} {
			a.refused(name+" at "+path, m.call(http.MethodGet, path, ""), http.StatusBadRequest)
		}
		for _, path := range []string{"/v1/node/" + storage.id + "/config", "/v1/node/config/" + storage.id, "/v1/node/../nodes/" + storage.id,
			"/v1/node/%2e%2e/nodes/" + storage.id, "/v1/nodes/" + storage.id, "//v1/nodes/" + storage.id} {
			a.refused(name+" at "+path, m.call(http.MethodGet, path, ""), http.StatusNotFound, http.StatusUnauthorized, http.StatusMethodNotAllowed)
		}
	}
}

func othersStatus(a *attempt) {
	victim := a.w.enrolled(a.w.ours, a.w.spare())
	m := a.w.enrolled(a.w.ours, a.w.spare())
	before := asJSON(a, a.w.Node(victim.id).Status)
	status := api.NodeStatus{Epoch: 1, ObservedGeneration: 1, ObservedDigest: "x", Conditions: []api.Condition{}}
	body := asJSON(a, status)
	a.allowed("its own", m.call(http.MethodPut, "/v1/node/status", body), http.StatusNoContent)
	for _, path := range []string{"/v1/node/status?nodeId=" + victim.id, "/v1/nodes/" + victim.id + "/status", "/v1/node/" + victim.id + "/status", "/v1/nodes/" + victim.id} {
		a.refused(path, m.call(http.MethodPut, path, body), http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnauthorized)
	}
	named := strings.TrimSuffix(body, "}") + `,"nodeId":"` + victim.id + `"}`
	// A status may have members that the controller does not know: they mean nothing.
	a.allowed("a status that names another", m.call(http.MethodPut, "/v1/node/status", named), http.StatusNoContent)
	if after := asJSON(a, a.w.Node(victim.id).Status); after != before {
		a.c.Unauthorised(1)
		a.Errorf("the other's status was %s and is %s", before, after)
	}
}

func othersFormat(a *attempt) {
	ours := a.w.newStack(0)
	storage, worker := a.w.enrolled(ours, ours.storage), a.w.enrolled(ours, ours.worker)
	another := a.w.newStack(0)
	foreign := a.w.enrolled(another, another.storage)
	report := func(phase api.FormatPhase, volume, permit string) string {
		return asJSON(a, api.FormatReport{Phase: phase, Permit: permit, SizeBytes: 1 << 30, FilesystemUUID: api.FilesystemUUID(volume),
			BlankCheck: &api.BlankCheck{BytesRead: 1 << 20, Samples: 100}})
	}
	path := func(volume string) string { return "/v1/node/volumes/" + volume + "/format" }
	nobodys := uuid.NewString()
	for name, m := range map[string]*machine{"the worker beside it": worker, "the storage server of another instance": foreign} {
		got := m.call(http.MethodPost, path(ours.volume), report(api.FormatWanted, ours.volume, ""))
		a.refused(name, got, http.StatusForbidden)
		unknown := m.call(http.MethodPost, path(nobodys), report(api.FormatWanted, nobodys, ""))
		a.refused(name+", of a volume that does not exist", unknown, http.StatusForbidden)
		if strings.ReplaceAll(got.body, ours.volume, nobodys) != unknown.body {
			a.c.Unauthorised(1)
			a.Errorf("%s is answered %s for another's volume, and %s for one that does not exist", name, got.body, unknown.body)
		}
	}
	granted := storage.call(http.MethodPost, path(ours.volume), report(api.FormatWanted, ours.volume, ""))
	a.allowed("its own storage server", granted, http.StatusOK)
	var permit api.FormatPermit
	if err := json.Unmarshal([]byte(granted.body), &permit); err != nil {
		a.Fatal(err)
	}
	for _, phase := range []api.FormatPhase{api.FormatWanted, api.FormatStarted, api.FormatFormatted} {
		for name, m := range map[string]*machine{"the worker": worker, "another instance's": foreign} {
			a.refused(name+" with the right permit: "+string(phase), m.call(http.MethodPost, path(ours.volume), report(phase, ours.volume, permit.Permit)), http.StatusForbidden)
		}
	}
	a.allowed("the owner's start", storage.call(http.MethodPost, path(ours.volume), report(api.FormatStarted, ours.volume, permit.Permit)), http.StatusOK)
	a.refused("a permit for another volume of its own instance's name", foreign.call(http.MethodPost, path(another.volume), report(api.FormatStarted, another.volume, permit.Permit)),
		http.StatusForbidden, http.StatusConflict)
}

func othersFiles(a *attempt) {
	m, other := a.w.enrolled(a.w.ours, a.w.spare()), a.w.enrolled(a.w.ours, a.w.spare())
	const script = "#!/bin/sh\n" // what Put uploads
	sum := sha256.Sum256([]byte(script))
	digest := hex.EncodeToString(sum[:])
	operator := a.w.Token("trust", api.ScopeOperator).Secret
	path := "/v1/vnf_instances/" + a.w.ours.instance + "/files/Scripts/install.sh"
	if got := a.w.caller().call(http.MethodGet, path, "", bearer(operator)); got.body != script {
		a.Fatalf("the file is not there: %d %s", got.status, got.body)
	}
	for name, m := range map[string]*machine{"a node": m, "another": other} {
		got := m.call(http.MethodGet, "/v1/node/files/"+digest, "")
		a.refused(name, got, http.StatusNotFound)
		absent := strings.Repeat("0", 64)
		if none := m.call(http.MethodGet, "/v1/node/files/"+absent, ""); strings.ReplaceAll(got.body, digest, absent) != none.body {
			a.c.Unauthorised(1)
			a.Errorf("%s is answered %s for a file that is there, and %s for one that is not", name, got.body, none.body)
		}
		for _, tail := range []string{strings.ToUpper(digest), digest + "/", digest + "%00", "../../store.db", "..%2f..%2fstore.db", "%2e%2e%2fseal.key", "", "*"} {
			a.refused(name+" at "+tail, m.call(http.MethodGet, "/v1/node/files/"+tail, ""), http.StatusNotFound, http.StatusBadRequest)
		}
		a.refused(name+" at the package", m.call(http.MethodGet, path, ""), http.StatusUnauthorized)
	}
}
