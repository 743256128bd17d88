package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/httpapi"
	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/version"
)

// HEAD is answered as GET is, but for the body (RFC 9110, section 9.3.2).
func TestHeadIsAnsweredAsGetIs(t *testing.T) {
	w := newWorld(t)
	document, err := httpapi.Document()
	w.must(err)
	node, _ := w.enroll()
	w.ok(w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID+"/files/Files/x.yaml", "x"), http.StatusCreated, nil)
	w.write("nodehitch-agent-amd64", "an agent")
	gets := 0
	for path, item := range document.Paths.Map() {
		if item.Get == nil {
			continue
		}
		gets++
		client, headers := w.client, []string{"Authorization: Bearer " + w.operator}
		if policy[item.Get.OperationID] == "certificate" {
			client, headers = node, nil
		}
		path = paths.Replace(path)
		get, head := w.call(client, "GET", path, "", headers...), w.call(client, "HEAD", path, "", headers...)
		if head.status != get.status || head.body != "" || head.header.Get("Content-Type") != get.header.Get("Content-Type") || head.header.Get("ETag") != get.header.Get("ETag") {
			t.Errorf("HEAD %s: %d %v, GET: %d %v", path, head.status, head.header, get.status, get.header)
		}
		if a := w.call(w.client, "HEAD", path, ""); policy[item.Get.OperationID] != "open" && a.status != http.StatusUnauthorized {
			t.Errorf("HEAD %s without a credential: %d", path, a.status)
		}
	}
	if gets < 15 {
		t.Errorf("%d operations were asked", gets)
	}
}

func TestAnybodyMayReadWhatTheAPIIs(t *testing.T) {
	w := newWorld(t)
	a := w.call(w.client, "GET", "/v1/openapi.yaml", "")
	if a.status != http.StatusOK || a.body != string(wire.OpenAPI) || !strings.HasPrefix(a.body, "openapi: 3.") || a.header.Get("Content-Type") != "application/yaml" {
		t.Errorf("%d %v %.200s", a.status, a.header, a.body)
	}
	var found wire.Version
	w.ok(w.call(w.client, "GET", "/v1/version", ""), http.StatusOK, &found)
	if found.Version != version.Version || found.Version == "" {
		t.Errorf("version %q, want %q", found.Version, version.Version)
	}
}
