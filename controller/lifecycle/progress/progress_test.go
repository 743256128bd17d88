package progress

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

const epoch = 3

// node is a storage server that is Ready, as change makes it.
func node(change func(*store.Node)) store.Node {
	enrolled := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	called := []string{api.ConditionVolumesMounted, api.ConditionExportsServed}
	n := store.Node{ID: "n", Name: "storage", Generation: 7, Digest: "d", Conditions: called,
		Identity: &store.Identity{EnrolledAt: enrolled}, StatusOf: enrolled,
		Status: &api.NodeStatus{Epoch: epoch, ObservedGeneration: 7, ObservedDigest: "d", AppliedGeneration: 7, AppliedDigest: "d"}}
	for _, c := range append([]string{api.ConditionReady}, called...) {
		n.Status.Conditions = append(n.Status.Conditions, api.Condition{Type: c, Status: api.ConditionTrue, ObservedGeneration: 7})
	}
	change(&n)
	return n
}

// lacks is a condition that is not True, failed also the agent's word that it has failed.
func lacks(n *store.Node, condition string, reason api.Reason) {
	c := n.Status.Condition(condition)
	c.Status, c.Reason, c.Message = api.ConditionFalse, reason, "why"
	n.Status.Condition(api.ConditionReady).Status = api.ConditionFalse
}

func failed(n *store.Node, condition string, reason api.Reason) {
	lacks(n, condition, reason)
	n.Status.LastFailedGeneration, n.Status.LastFailedCondition = n.Generation, condition
}

func withheld(n *store.Node, reasons ...api.Reason) {
	for _, r := range reasons {
		w := api.Withheld{NodeID: n.ID, Section: "s", Reason: r, Message: "of " + r}
		if r == api.ReasonWaitingForExports {
			w.WaitsFor = "another"
		}
		n.Withheld = append(n.Withheld, w)
	}
}

// A target says what it lacks most: what no waiting mends before the rest, and what another
// node has to do first only if nothing else is missing.
func TestTarget(t *testing.T) {
	const mounted, served = api.ConditionVolumesMounted, api.ConditionExportsServed
	for name, c := range map[string]struct {
		change   func(*store.Node)
		reason   api.Reason // empty: ready
		final    bool
		waitsFor string
		says     string
	}{
		"ready":                       {change: func(*store.Node) {}},
		"not there":                   {func(n *store.Node) { n.Identity = nil }, api.ReasonNotEnrolled, false, "", "has not enrolled"},
		"revoked":                     {func(n *store.Node) { n.Identity.RevokedAt, n.Identity.RevokedReason = &time.Time{}, "by hand" }, api.ReasonNotEnrolled, false, "", "by hand"},
		"silent":                      {func(n *store.Node) { n.Status = nil }, api.ReasonNotReported, false, "", "generation 7"},
		"at work":                     {func(n *store.Node) { lacks(n, mounted, api.ReasonConverging) }, api.ReasonConverging, false, "", "VolumesMounted: why"},
		"failed":                      {func(n *store.Node) { failed(n, mounted, api.ReasonForeignData) }, api.ReasonForeignData, true, "", "VolumesMounted: why"},
		"tried again":                 {func(n *store.Node) { lacks(n, mounted, api.ReasonForeignData) }, api.ReasonForeignData, false, "", "why"},
		"failed, and mends by itself": {func(n *store.Node) { failed(n, mounted, api.ReasonSizeMismatch) }, api.ReasonSizeMismatch, false, "", "why"},
		"failed for a reason that this build does not know": {func(n *store.Node) { failed(n, mounted, "Unheard") }, "Unheard", false, "", "why"},
		"failed, and then mended":                           {change: func(n *store.Node) { n.Status.LastFailedGeneration, n.Status.LastFailedCondition = 7, mounted }},
		"failed after what waits": {func(n *store.Node) {
			lacks(n, mounted, api.ReasonWaitingForDevice)
			failed(n, served, api.ReasonExportRefused)
		}, api.ReasonExportRefused, true, "", "ExportsServed: why"},
		"another one failed": {func(n *store.Node) {
			failed(n, mounted, api.ReasonSizeMismatch)
			lacks(n, served, api.ReasonExportRefused)
		}, api.ReasonSizeMismatch, false, "", "why"},
		"failed for the document before": {func(n *store.Node) {
			failed(n, mounted, api.ReasonForeignData)
			n.Status.LastFailedGeneration--
		}, api.ReasonForeignData, false, "", "why"},
		"the condition is of the document before": {func(n *store.Node) {
			failed(n, mounted, api.ReasonForeignData)
			n.Status.Condition(mounted).ObservedGeneration--
		}, api.ReasonForeignData, false, "", "why"},
		"the report is of the document before": {func(n *store.Node) {
			failed(n, mounted, api.ReasonForeignData)
			n.Status.ObservedGeneration, n.Status.LastFailedGeneration = 6, 6
		}, api.ReasonNotReported, false, "", "generation 7"},
		"the report is of before a restore": {func(n *store.Node) {
			failed(n, mounted, api.ReasonForeignData)
			n.Status.Epoch--
		}, api.ReasonNotReported, false, "", "generation 7"},
		"the document is invalid": {func(n *store.Node) { failed(n, api.ConditionReady, api.ReasonInvalidDocument) }, api.ReasonInvalidDocument, true, "", "Ready: why"},

		"a section that comes by itself": {func(n *store.Node) { withheld(n, api.ReasonAgentTooOld) }, api.ReasonAgentTooOld, false, "", "of AgentTooOld"},
		"a section that does not":        {func(n *store.Node) { withheld(n, api.ReasonVolumeUnresolved) }, api.ReasonVolumeUnresolved, true, "", "of VolumeUnresolved"},
		"one of either": {func(n *store.Node) { withheld(n, api.ReasonFileMissing, api.ReasonConnectionPointUnresolved) },
			api.ReasonConnectionPointUnresolved, true, "", "of ConnectionPointUnresolved; of FileMissing"},
		"one that comes, and failed": {func(n *store.Node) {
			withheld(n, api.ReasonAgentTooOld)
			failed(n, mounted, api.ReasonForeignData)
		}, api.ReasonForeignData, true, "", "why"},
		"one that does not, and not there": {func(n *store.Node) {
			withheld(n, api.ReasonVolumeUnresolved)
			n.Identity = nil
		}, api.ReasonVolumeUnresolved, true, "", "of VolumeUnresolved"},

		"only waits for another":  {func(n *store.Node) { withheld(n, api.ReasonWaitingForExports) }, api.ReasonWaitingForExports, false, "another", "of WaitingForExports"},
		"waits, and is not there": {func(n *store.Node) { withheld(n, api.ReasonWaitingForExports); n.Identity = nil }, api.ReasonNotEnrolled, false, "", "has not enrolled"},
		"waits, and is at work":   {func(n *store.Node) { withheld(n, api.ReasonWaitingForExports); lacks(n, mounted, api.ReasonConverging) }, api.ReasonConverging, false, "", "why"},
		"waits, and has failed": {func(n *store.Node) {
			withheld(n, api.ReasonWaitingForExports)
			failed(n, mounted, api.ReasonForeignData)
		}, api.ReasonForeignData, true, "", "why"},
		"waits, and lacks a file too": {func(n *store.Node) { withheld(n, api.ReasonWaitingForExports, api.ReasonFileMissing) }, api.ReasonFileMissing, false, "", "of FileMissing"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Target(node(c.change), epoch)
			if got.NodeID != "n" || got.Name != "storage" || got.Ready != (c.reason == "") || got.Reason != c.reason ||
				got.Final != c.final || got.WaitsFor != c.waitsFor || !strings.Contains(got.Message, c.says) {
				t.Errorf("got %+v, want the reason %q, final %v, waiting for %q, that says %q", got, c.reason, c.final, c.waitsFor, c.says)
			}
		})
	}
}

// targets are by their ids: a is ready, b at work, c and d failed finally, and each other one
// waits for the one after the colon.
func targets(ids string) (list []api.OperationTarget) {
	for id := range strings.FieldsSeq(ids) {
		id, waitsFor, _ := strings.Cut(id, ":")
		t := api.OperationTarget{NodeID: id, Name: "node-" + id, WaitsFor: waitsFor, Reason: "Reason"}
		t.Ready, t.Final = id == "a", id == "c" || id == "d"
		list = append(list, t)
	}
	return list
}

func TestStuck(t *testing.T) {
	for ids, want := range map[string]bool{
		"c":         true,
		"a c":       true,
		"c d a":     true,
		"b":         false,
		"b c":       false,
		"c b":       false,
		"w:c c":     true, // it waits for one that comes after it
		"c w:c v:c": true,
		"a w:a":     false,
		"b w:b":     false,
		"c w:gone":  false,
		"c w:b b":   false,
		"c w:c v:b": false,
	} {
		if got := Stuck(targets(ids)); got != want {
			t.Errorf("%s: stuck %v, want %v", ids, got, want)
		}
	}
}

func TestCausesComeFirst(t *testing.T) {
	for ids, want := range map[string]string{
		"w:c a c":       "c a w",
		"b w:c c v:c d": "c d b w v",
		"a b":           "a b",
		"":              "",
	} {
		given := targets(ids)
		before := slices.Clone(given)
		var got []string
		for _, target := range ByCause(given) {
			got = append(got, target.NodeID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", ids, got, want)
		}
		if !slices.Equal(given, before) {
			t.Errorf("%s: the list that was given is another one now: %v", ids, given)
		}
	}
	if got, want := Waiting(targets("a b c")), "node-b (b): Reason, ; node-c (c): Reason, "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
