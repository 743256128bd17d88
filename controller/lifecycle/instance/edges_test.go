package instance_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// No parameters may lead the nodes of an instance to another controller, whichever of its
// names they use.
func TestNoHostsLineNamesTheController(t *testing.T) {
	w := lifecycletest.New(t)
	w.Config.Names = []string{"hitch.example.com"}
	w.Config.AdvertiseURLs = []string{"https://advertised.example.com:8443"}
	w.Config.ControllerURLs = []string{"https://moved.example.com:8443"}
	w.Restart()
	const line = `"192.168.0.20 registry.example.com`
	given := w.Verbatim("registry-connections.json")
	for _, c := range []struct{ name, fault string }{
		{"Hitch.example.com", "is a name of the controller"},
		{"advertised.example.com", "is a name of the controller"},
		{"moved.example.com", "is a name of the controller"},
	} {
		spec := given
		spec.AdditionalParams = json.RawMessage(strings.Replace(string(given.AdditionalParams), line, line+" "+c.name, 1))
		if bytes.Equal(spec.AdditionalParams, given.AdditionalParams) {
			t.Fatal("the sample has no such hosts line")
		}
		_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, spec)
		w.WantRefused(err, api.ProblemInvalid, "/private_registry_connection_info/1/hosts_string", c.name, c.fault)
		// Beside another fault it is no secret until that is mended.
		spec.AdditionalParams = json.RawMessage(strings.Replace(string(spec.AdditionalParams), `"192.168.246.0/24,`, `"not a network,`, 1))
		_, _, err = w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, spec)
		w.WantRefused(err, api.ProblemInvalid, "/private_registry_connection_info/1/hosts_string", c.name, c.fault, "/proxy/no_proxy")
	}
	spec := given
	spec.AdditionalParams = json.RawMessage(strings.Replace(string(given.AdditionalParams), line, line+" mirror.example.com", 1))
	warnings := slices.DeleteFunc(w.Put(spec).Warnings, func(f api.Fault) bool { return strings.Contains(f.Pointer, "/proxy/") })
	if len(warnings) != 1 || !strings.Contains(warnings[0].Message, `names "mirror.example.com" too`) {
		t.Errorf("warnings %v, want one of the name that is not the registry's", warnings)
	}
}
