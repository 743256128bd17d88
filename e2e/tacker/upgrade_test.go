package tacker

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// podNetwork is the package's file of the Pod network.
const podNetwork = "Files/kubernetes/pod-network.yaml"

// TestUpgradeByTheScript changes the package of a VNF whose cluster nodehitch has made.
func TestUpgradeByTheScript(t *testing.T) {
	r := results.Begin(t, suite, "upgrade/v2", "a change of the VNF package with another version of Kubernetes gives the cluster the new package's files and version and Heat nothing new; the hook is over once each member has the version; while one has not, it fails at its deadline, and its retry waits for the rest; a rollback gives Heat nothing new either")
	w := newTackerMachine(t)
	v := w.newVNF().asV2()
	v.packs("1.34.3", "first")
	v.succeeds("instantiate_start", v.body, nil)
	v.created()
	v.grants("CA", "token")
	v.succeeds("instantiate_end", v.body, nil)
	v.has("1.34.3", v.masters[0], v.workers[0], v.workers[1])

	before := v.next()
	v.packs("1.34.4", "second")
	v.anotherPackage()
	request := object{"vnfdId": v.vnfd(), "additionalParams": v.changed()}
	last := v.workers[0]
	if v.workers[1].id > last.id {
		last = v.workers[1]
	}
	last.node.say(func(s *api.NodeStatus) {
		set(s, api.ConditionClusterMember, api.ConditionFalse, api.ReasonNodeNotReady, "x")
		set(s, api.ConditionReady, api.ConditionFalse, api.ReasonNodeNotReady, "x")
	})
	files, warnings, parameters := v.instance().Files, v.instance().Warnings, v.kept.heat.Parameters
	v.succeeds("change_current_package_start", request, nil)
	v.makes("CHANGE_VNFPKG", request)
	if !reflect.DeepEqual(v.kept.heat.Parameters, parameters) {
		t.Errorf("Heat had the parameters %v, has %v", parameters, v.kept.heat.Parameters)
	}
	w.configure(map[string]string{"deadline": "10"})
	e := v.exec("change_current_package_end", request, nil)
	if e.Code != 1 || !strings.Contains(e.Error, "the deadline has passed") || !strings.Contains(e.Error, last.id) {
		t.Errorf("while the last member is not ready: exit %d: %s", e.Code, e.Error)
	}
	r.Figure("the error", "%s", e.Error)
	v.asRecorded(before, "CHANGE_VNFPKG START COMPLETED", "CHANGE_VNFPKG END FAILED")

	if problem := v.orBack("CHANGE_VNFPKG", request, true); problem != "" || !reflect.DeepEqual(v.kept.heat.Parameters, parameters) {
		t.Errorf("after a rollback Heat has the parameters %v (%s), had %v", v.kept.heat.Parameters, problem, parameters)
	}

	last.node.say(nil)
	w.configure(nil)
	v.succeeds("change_current_package_start", request, nil)
	v.succeeds("change_current_package_end", request, nil)
	v.asRecorded(before, "CHANGE_VNFPKG START COMPLETED", "CHANGE_VNFPKG END FAILED", "CHANGE_VNFPKG START COMPLETED", "CHANGE_VNFPKG END COMPLETED")
	v.has("1.34.4", v.masters[0], v.workers[0], v.workers[1])
	if got := v.instance().Warnings; !slices.Equal(got, warnings) {
		t.Errorf("the instance had the warnings %+v, has %+v", warnings, got)
	}
	for i, f := range v.instance().Files {
		if changed := f.Sha256 != files[i].Sha256; changed != (f.Path == podNetwork) {
			t.Errorf("%s has changed: %v", f.Path, changed)
		}
	}
}

// anotherPackage has Tacker get the present files as another package.
func (v *v2) anotherPackage() { v.vnfdID, v.packageID = "", uuid.NewString() }

// changed are the additionalParams of a change of the package in which Tacker replaces no server.
func (v *v2) changed() object {
	additional := object{"upgrade_type": "RollingUpdate", "vdu_params": []any{}}
	maps.Copy(additional, v.wanted())
	return additional
}

// packs makes the request and the package ones of this version of Kubernetes.
func (v *v2) packs(version, network string) {
	v.t.Helper()
	cluster := v.wanted()["k8s_cluster_installation_param"].(object)
	cluster["kubernetes"] = object{"version": version, "pod_network_manifest_path": podNetwork}
	manifest := "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + network + "}\n"
	if err := os.WriteFile(filepath.Join(v.files, podNetwork), []byte(manifest), 0o600); err != nil {
		v.t.Fatal(err)
	}
}

// has asserts that each of the servers has been told this version of Kubernetes.
func (v *v2) has(version string, servers ...*server) {
	v.t.Helper()
	for _, s := range servers {
		s.node.mu.Lock()
		if k := s.node.has.Kubernetes; k == nil || k.Version != version {
			v.t.Errorf("%s has been told %+v, want %s", s.name, k, version)
		}
		s.node.mu.Unlock()
	}
}
