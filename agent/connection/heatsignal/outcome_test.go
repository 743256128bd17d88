package heatsignal

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/shared/api"
)

const server = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f"

// at is the status of a machine that has this document from its controller.
func at(observed, applied, failed int64, conditions ...api.Condition) status.Status {
	s := status.Status{AgentVersion: "v1", NodeID: server, Origin: status.FromController}
	s.Node.ObservedGeneration, s.Node.AppliedGeneration, s.Node.LastFailedGeneration = observed, applied, failed
	s.Node.Conditions = conditions
	if failed > 0 {
		s.Node.LastFailedCondition = api.ConditionVolumesMounted
	}
	return s
}

func ready(status api.ConditionStatus) api.Condition {
	return api.Condition{Type: api.ConditionReady, Status: status, Reason: "R"}
}

func foreign(message string) api.Condition {
	return api.Condition{Type: api.ConditionVolumesMounted, Status: api.ConditionFalse, Reason: api.ReasonForeignData, Message: message}
}

func TestWhatIsTold(t *testing.T) {
	yes, no := ready(api.ConditionTrue), ready(api.ConditionFalse)
	nobody, disk := at(3, 3, 0, yes), at(3, 3, 0, yes)
	nobody.NodeID, disk.Origin = "", status.FromDisk
	for name, test := range map[string]struct {
		status status.Status
		want   string // status and reason
	}{
		"nothing yet":                            {status.Status{}, ""},
		"converged":                              {at(3, 3, 0, yes), "SUCCESS converged to generation 3"},
		"converged, but who it is":               {nobody, ""},
		"converged to what was on disk":          {disk, ""},
		"in progress":                            {at(3, 0, 0, no), ""},
		"converged to the document before":       {at(4, 3, 0, no), ""},
		"Ready of the document before":           {at(4, 3, 0, yes), ""},
		"failed":                                 {at(3, 0, 3, no, foreign("xfs")), "FAILURE VolumesMounted: ForeignData: xfs"},
		"failed, with a newer document":          {at(4, 0, 3, no, foreign("xfs")), ""},
		"failed before, converged now":           {at(4, 4, 3, yes), "SUCCESS converged to generation 4"},
		"the same document failed, then mended":  {at(3, 3, 3, yes), "SUCCESS converged to generation 3"},
		"failed, and no condition says anything": {at(3, 0, 3), "FAILURE VolumesMounted"},
	} {
		t.Run(name, func(t *testing.T) {
			signal, ok := Of(&test.status)
			got := strings.TrimSpace(signal.Status + " " + signal.Reason)
			if got != test.want || ok != (test.want != "") {
				t.Errorf("got %q, %t; want %q", got, ok, test.want)
			}
			if ok && signal.ID != server {
				t.Errorf("id is %q", signal.ID)
			}
		})
	}
}

func TestAMessageWithoutEnd(t *testing.T) {
	s := at(3, 0, 3, foreign(strings.Repeat("ü", 5000)))
	signal, _ := Of(&s)
	if diff := cmp.Diff("VolumesMounted: ForeignData: "+strings.Repeat("ü", longestReason-29)+"…", signal.Reason); diff != "" {
		t.Error(diff)
	}
}
