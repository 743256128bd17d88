package progress_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/lifecycle/progress"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A node counts by what it has proven for its present document, in this epoch.
func TestConditions(t *testing.T) {
	enrolled := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	good := func() store.Node {
		return store.Node{Generation: 2, Digest: "d2", Conditions: []string{api.ConditionVolumesMounted, api.ConditionExportsServed},
			Identity: &store.Identity{EnrolledAt: enrolled}, StatusOf: enrolled,
			Status: &api.NodeStatus{Epoch: 1, ObservedGeneration: 2, ObservedDigest: "d2", AppliedGeneration: 2, AppliedDigest: "d2", Conditions: []api.Condition{
				{Type: api.ConditionReady, Status: api.ConditionTrue, Reason: api.ReasonReady},
				{Type: api.ConditionVolumesMounted, Status: api.ConditionTrue, Reason: api.ReasonMounted},
				{Type: api.ConditionExportsServed, Status: api.ConditionTrue, Reason: api.ReasonServed},
				{Type: api.ConditionRegistryRunning, Status: api.ConditionFalse, Reason: api.ReasonPortInUse}, // the document does not call for it
			}}}
	}
	unknown := func(reason string) []string {
		return []string{"Ready Unknown " + reason, "VolumesMounted Unknown " + reason, "ExportsServed Unknown " + reason}
	}
	for name, c := range map[string]struct {
		change func(*store.Node)
		want   []string
	}{
		"proven":               {func(*store.Node) {}, []string{"Ready True Ready", "VolumesMounted True Mounted", "ExportsServed True Served"}},
		"of another document":  {func(n *store.Node) { n.Digest = "d3" }, unknown("NotReported")},
		"of another epoch":     {func(n *store.Node) { n.Status.Epoch = 0 }, unknown("NotReported")},
		"of another machine":   {func(n *store.Node) { n.Identity.EnrolledAt = enrolled.Add(1) }, unknown("NotReported")},
		"never enrolled":       {func(n *store.Node) { n.Identity, n.Status = nil, nil }, unknown("NotEnrolled")},
		"revoked":              {func(n *store.Node) { n.Identity.RevokedAt = &enrolled }, unknown("NotEnrolled")},
		"not yet applied":      {func(n *store.Node) { n.Status.AppliedDigest = "d1" }, []string{"Ready False NotReady", "VolumesMounted True Mounted", "ExportsServed True Served"}},
		"a section is ignored": {func(n *store.Node) { n.Status.Conditions = n.Status.Conditions[:2] }, []string{"Ready False NotReady", "VolumesMounted True Mounted", "ExportsServed Unknown NotReported"}},
		"one is False": {func(n *store.Node) {
			n.Status.Conditions[1].Status, n.Status.Conditions[1].Reason = api.ConditionFalse, api.ReasonForeignData
		},
			[]string{"Ready False NotReady", "VolumesMounted False ForeignData", "ExportsServed True Served"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := good()
			c.change(&n)
			var got []string
			for c := range progress.Conditions(n, 1) {
				got = append(got, c.Type+" "+string(c.Status)+" "+c.Reason)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if ready := slices.Contains(got, "Ready True Ready"); ready != progress.Ready(n, 1) {
				t.Errorf("Ready is %v here and %v there", ready, progress.Ready(n, 1))
			}
		})
	}
}
