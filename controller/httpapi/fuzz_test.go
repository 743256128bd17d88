package httpapi

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	kjson "sigs.k8s.io/json"

	"github.com/nodehitch/nodehitch/controller/httpapi/schema"
	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// bodies are the Go types behind the bodies of what agents and Tacker send.
var bodies = map[string]func() any{
	"putNodeStatus": func() any { return new(wire.NodeStatus) },
	"postFormat":    func() any { return new(wire.FormatReport) },
	"enroll":        func() any { return new(wire.EnrollRequest) },
	"putInstance":   func() any { return new(wire.InstanceSpec) },
	"postOperation": func() any { return new(wire.OperationRequest) },
}

// FuzzBodies asserts that a body which the schema of its operation takes can be
// decoded, and that one which it refuses has a bounded number of faults.
func FuzzBodies(f *testing.F) {
	document, err := Document()
	if err != nil {
		f.Fatal(err)
	}
	operations, err := endpointsOf(document)
	if err != nil {
		f.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(bodies))
	for i, name := range names {
		if operations[name].body == nil {
			f.Fatalf("%s has no body", name)
		}
		f.Add(uint(i), []byte(samples[name]))
	}
	f.Fuzz(func(t *testing.T, which uint, body []byte) {
		name := names[which%uint(len(names))]
		tree, wrong := jsontree.Parse(body)
		if wrong != nil {
			return
		}
		into := bodies[name]()
		switch faults := operations[name].body.Check(tree); {
		case len(faults) > schema.MaxFaults:
			t.Errorf("%d faults", len(faults))
		case len(faults) == 0:
			if err := kjson.UnmarshalCaseSensitivePreserveInts(body, into); err != nil {
				t.Errorf("%s takes %q, which is not decoded: %v", name, body, err)
			}
			if _, err := json.Marshal(into); err != nil {
				t.Errorf("%s takes %q, which cannot be stored: %v", name, body, err)
			}
		}
	})
}

// samples are bodies to begin with; FuzzBodies varies them.
var samples = map[string]string{
	"putNodeStatus": `{"epoch":1,"observedGeneration":2,"observedDigest":"x","appliedGeneration":2,"appliedDigest":"x","conditions":[
		{"type":"Ready","status":"True","reason":"Ready","message":"","lastTransitionTime":"2030-01-31T12:00:00Z"}]}`,
	"postFormat": `{"phase":"wanted","filesystemUuid":"6f9619ff-8b86-4d01-b42d-00cf4fc964ff","sizeBytes":1073741824,
		"blankCheck":{"bytesRead":1048576,"samples":64}}`,
	"enroll": `{"serverID":"6f9619ff-8b86-4d01-b42d-00cf4fc964ff","certificateRequest":"-----BEGIN CERTIFICATE REQUEST-----"}`,
	"putInstance": `{"additionalParams":{"k8s_cluster_installation_param":{}},"stackId":"6f9619ff-8b86-4d01-b42d-00cf4fc964ff",
		"topology":{"servers":[{"id":"6f9619ff-8b86-4d01-b42d-00cf4fc964ff","name":"a"}]}}`,
	"postOperation": `{"operation":"HEAL","phase":"END","vnfcInstanceIds":["a"],"idempotencyKey":"k","deadlineSeconds":60}`,
}
