package kube_test

import (
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The API server says what is wrong with a manifest, in several ways: 400, 422, and 500 if
// it violates the schema. None of them is a fault of the cluster.
func TestManifestsThatTheAPIServerRefuses(t *testing.T) {
	results.Begin(t, suite, "agent-refused-manifests",
		"a manifest that the API server refuses, of a new or a registered volume, is reported with the fault; the others are registered")
	kubetest.Require(t)
	m := newMaster(t)
	good, other := manifest("pv1", storageServer), manifest("pv2", storageServer)
	for name, c := range map[string]struct{ old, new, says string }{
		"an unknown field":            {`"capacity"`, `"capacitty": "x", "capacity"`, ".spec.capacitty: field not declared in schema"},
		"an unknown field deep":       {`"path"`, `"pfad": "/x", "path"`, ".spec.nfs.pfad: field not declared in schema"},
		"another type":                {`"nfs": {`, `"nfs": {"readOnly": "yes", `, ".spec.nfs.readOnly"},
		"an object for a list":        {`["ReadWriteMany"]`, `{"a": 1}`, ".spec.accessModes"},
		"no quantity":                 {`"1Gi"`, `"1 GB"`, "quantities must match"},
		"no capacity":                 {`"capacity": {"storage": "1Gi"}, `, ``, "spec.capacity"},
		"an unknown access mode":      {`"ReadWriteMany"`, `"Many"`, "spec.accessModes"},
		"an unknown policy":           {`"Retain"`, `"Burn"`, "spec.persistentVolumeReclaimPolicy"},
		"two sources":                 {`"nfs": {`, `"hostPath": {"path": "/x"}, "nfs": {`, "may not specify more than 1 volume type"},
		"an unknown one at the top":   {`"spec"`, `"sepc": {}, "spec"`, ".sepc: field not declared in schema"},
		"an unknown one of metadata":  {`"metadata": {`, `"metadata": {"lables": {"a": "b"}, `, ".metadata.lables: field not declared in schema"},
		"a label that is a number":    {`"metadata": {`, `"metadata": {"labels": {"a": 1}, `, ".metadata.labels.a"},
		"annotations that are a list": {`"metadata": {`, `"metadata": {"annotations": ["a"], `, ".metadata.annotations"},
		"a label of two lines":        {`"metadata": {`, `"metadata": {"labels": {"a": "b\nc"}, `, "metadata.labels"},
	} {
		t.Run(name, func(t *testing.T) {
			m.t = t
			bad := strings.Replace(good, c.old, c.new, 1)
			if bad == good {
				t.Fatal("the case changes nothing")
			}
			for _, there := range []string{"", "pv1 pv2"} {
				m.manifests()
				m.converge(api.ReasonRegistered)
				if there != "" {
					m.manifests(good, other)
					m.converge(api.ReasonRegistered)
				}
				m.manifests(bad, other)
				r := m.pass()
				got := r.Condition(api.ConditionPersistentVolumesRegistered)
				if got.Reason != api.ReasonManifestRejected || r.FailedCondition == "" {
					t.Errorf("there is %q: the condition is %s: %s; failed %q", there, got.Reason, got.Message, r.FailedCondition)
				}
				m.says(got.Message, "pv1", c.says)
				if names := m.names(); names != "pv2" && names != there {
					t.Errorf("there is %q", names)
				}
			}
		})
	}
}
