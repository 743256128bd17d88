package params_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// TestAValueOfAWrongTypeIsAFaultAtItsPlace puts a value of every other JSON type
// in the place of each value that the samples give and nodehitch knows.
func TestAValueOfAWrongTypeIsAFaultAtItsPlace(t *testing.T) {
	wrong := []string{`null`, `true`, `-1e400`, `[]`, `[[[]]]`, `{}`, `{"":{"":[]}}`, `"\ud800"`, `""`}
	for _, file := range bodies(t, "testdata/*.json", 4) {
		body := read(t, file)
		root, broken := jsontree.Parse(body)
		if broken != nil {
			t.Fatal(broken)
		}
		places := 0
		each(root, "", func(at fault.At, n *jsontree.Node) {
			places++
			for _, value := range wrong {
				changed := string(body[:n.Start]) + value + string(body[n.End:])
				request, report := params.ParseRequest([]byte(changed))
				if request == nil && !slices.ContainsFunc(report.Faults, func(f fault.Fault) bool { return concerns(f, at) }) {
					t.Errorf("%s: %s at %s is refused, but no fault is there:\n%v", filepath.Base(file), value, at, report.Faults)
				}
				if request != nil && !mayBe(at, value) {
					t.Errorf("%s: %s at %s is taken", filepath.Base(file), value, at)
				}
				if _, report := params.ParseRequest(params.Redact([]byte(changed))); request != nil && slices.ContainsFunc(report.Faults, noPlaceholder) {
					t.Errorf("%s: %s at %s: redaction breaks the body: %v", filepath.Base(file), value, at, report.Faults)
				}
			}
		})
		if places < 20 {
			t.Errorf("%s: only %d places", file, places)
		}
	}
}

// noPlaceholder reports whether a fault of a redacted body is another than that it is redacted.
func noPlaceholder(f fault.Fault) bool {
	return !strings.Contains(f.Message, "the placeholder of a secret")
}

// each visits every value, with its place.
func each(n *jsontree.Node, at fault.At, visit func(fault.At, *jsontree.Node)) {
	visit(at, n)
	for i, item := range n.Items {
		each(item, at.Index(i), visit)
	}
	for _, m := range n.Members {
		each(m.Value, at.Key(m.Name), visit)
	}
}

// concerns reports whether a fault stands at a place, in the object that contains it (a
// check of several attributes), beside it (what needs it), or below it (an object that
// lacks everything).
func concerns(f fault.Fault, at fault.At) bool {
	place := string(at)
	return f.Pointer == place || strings.HasPrefix(f.Pointer, place+"/") || f.Pointer == parent(place) || parent(f.Pointer) == parent(place)
}

func parent(place string) string { return place[:max(0, strings.LastIndexByte(place, '/'))] }

// requiredNames are the attributes of the samples that must not be empty.
var requiredNames = []string{
	"additionalParams", "cinder_volume_setup_params", "cluster_cp_name", "connection_type", "cpConfig", "cpdId", "export_dir", "export_to", "extCps",
	"flavourId", "id", "master_node", "mount_to", "nfs_server_cp", "nfs_server_setup_params", "pv_manifest_file_path", "resourceId", "script_path",
	"server", "ssh_cp_name", "version", "vimType", "volume_resource_id", "worker_node",
}

// mayBeEmpty reports whether the empty text at a place is as good as nothing there.
func mayBeEmpty(place string) bool {
	name := strings.TrimPrefix(place, parent(place)+"/")
	_, element := strconv.Atoi(name)
	return place != "" && element != nil && !slices.Contains(requiredNames, name)
}

// mayBe lists what is accepted all the same.
func mayBe(at fault.At, value string) bool {
	place := string(at)
	switch {
	case strings.Contains(place, "/cpConfig/"), strings.HasSuffix(place, "/vimId"):
		return true // Tacker's alone
	case value == `""`:
		return mayBeEmpty(place)
	case strings.HasSuffix(place, "/cpConfig"):
		return strings.HasPrefix(value, "[") || strings.HasPrefix(value, "{")
	case strings.Contains(place, "lcm-operation-user-data"):
		return strings.HasPrefix(value, `"`)
	case place == "/vimConnectionInfo":
		return value == "[]" || strings.HasPrefix(value, "{")
	case slices.Contains([]string{"/extVirtualLinks"}, place),
		strings.HasSuffix(place, "/pv_registration_params"), strings.HasSuffix(place, "/private_registry_connection_info"):
		return value == "[]"
	case strings.HasSuffix(place, "/proxy"):
		return strings.HasPrefix(value, "{")
	case strings.HasSuffix(place, "assword"):
		return value == `"\ud800"` // any text may be a password
	}
	return false
}

func TestNestingIsAFaultAndNotAStackOverflow(t *testing.T) {
	for _, depth := range []int{99, 101, 9_000, 100_000, 1_000_000} {
		for _, pair := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
			raw := strings.Repeat(pair[0], depth) + "1" + strings.Repeat(pair[1], depth)
			if request, report := params.ParseRequest([]byte(raw)); request != nil || len(report.Faults) == 0 {
				t.Errorf("%d levels of %s are taken", depth, pair[0])
			}
			p, report := params.Parse(json.RawMessage(fmt.Sprintf(`{"private_registry_installation_param":{"ssh_cp_name":"a","x":%s}}`, raw)), "/x")
			if taken := p != nil; taken != (depth < 98) {
				t.Errorf("%d levels of %s: taken %t: %v", depth, pair[0], taken, report.Faults)
			}
		}
	}
}
