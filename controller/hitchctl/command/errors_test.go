package command

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/request"
	"github.com/nodehitch/nodehitch/shared/api"
)

const instanceID, otherID = "0b1a5c2e-7c53-4d86-9f0a-8f6f5b0c1d2e", "4a0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f1"

// What a hint shows of a topology is accepted.
func TestTheFormOfATopologyIsRight(t *testing.T) {
	_, form, _ := strings.Cut(topologyForm, ":\n")
	if _, faults := request.ReadTopology([]byte(strings.NewReplacer("SERVER_ID", instanceID, "VOLUME_ID", otherID).Replace(form))); len(faults) > 0 {
		t.Error(faults)
	}
}

// A hint follows the actions of a problem, and none of its words.
func TestHintsAreByAction(t *testing.T) {
	short := describe.Short(instanceID)
	for name, c := range map[string]struct {
		problem string
		actions []api.Action
		want    string
	}{
		"an operation in the way": {api.ProblemOperationInProgress,
			[]api.Action{{Call: api.CallGetOperation, ID: instanceID + "/12"}, {Call: api.CallCancelOperation, ID: instanceID + "/12"}},
			"`hitchctl wait operation " + short + "/12` waits for its end, `hitchctl cancel operation " + short + "/12` ends it"},
		"a TERMINATE in the way": {api.ProblemOperationInProgress, []api.Action{{Call: api.CallGetOperation, ID: instanceID + "/2"}},
			"`hitchctl wait operation " + short + "/2` waits for its end"},
		"servers are missing": {api.ProblemTopologyIncomplete,
			[]api.Action{{Call: api.CallPostOperation, ID: instanceID, Member: "topology"}, {Call: api.CallPostOperation, ID: instanceID, Member: "partial"}},
			"`hitchctl operate 0b1a HEAL --topology topology.json` gives them, `hitchctl operate 0b1a HEAL --partial` starts it without them; " + topologyForm},
		"servers are missing in Heat": {api.ProblemTopologyIncomplete, []api.Action{{Call: api.CallPostOperation, Member: "partial"}},
			"`hitchctl operate 0b1a HEAL --partial` starts it without them"},
		"a member of later":                          {api.ProblemConflict, []api.Action{{Call: api.CallPostOperation, Member: "force"}}, "`hitchctl operate 0b1a HEAL --force` may pass"},
		"a member that no flag has, a call of later": {api.ProblemConflict, []api.Action{{Call: api.CallPostOperation, Member: "prayer"}, {Call: "pray"}}, ""},
		"restored": {api.ProblemRestoreUnconfirmed,
			[]api.Action{{Call: api.CallPutInstance, ID: instanceID}, {Call: api.CallRevokeNode}, {Call: api.CallConfirmInstance, ID: instanceID}},
			"`hitchctl apply " + short + " -f request.json` makes or changes it, `hitchctl node revoke NODE` ends an identity, `hitchctl confirm instance " + short + "` lets its nodes in again"},
		"a token of before": {api.ProblemUnauthorized, []api.Action{{Call: api.CallConfirmToken, ID: otherID}},
			"`hitchctl confirm token " + otherID + "` as root on the controller's machine makes it good again"},
		"no such node":      {api.ProblemNotFound, []api.Action{{Call: api.CallListNodes}}, "`hitchctl get nodes` lists them"},
		"no such volume":    {api.ProblemNotFound, []api.Action{{Call: api.CallListVolumes}}, "`hitchctl get volumes` lists them"},
		"a node that hangs": {api.ProblemConflict, []api.Action{{Call: api.CallRevokeNode, ID: otherID}}, "`hitchctl node revoke " + otherID + "` ends an identity"},
		"a server":          {api.ProblemIdentityLive, []api.Action{{Call: api.CallReenrollNode, ID: otherID}}, "`hitchctl node reenroll " + otherID + "` lets it enroll again"},
		"a volume": {api.ProblemNoPermit, []api.Action{{Call: api.CallAdoptVolume, ID: otherID}, {Call: api.CallReformatVolume, ID: otherID}},
			"`hitchctl volume adopt " + otherID + " --filesystem-uuid UUID` keeps what the volume holds, `hitchctl volume reformat " + otherID + "` permits a format, which erases the volume"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &app{args: []string{"operate", "0b1a", "HEAL"}}
			a.found.TokenFrom = "a.token"
			detail := "operation " + instanceID + "/7: give a `topology`, or `partial`; `hitchctl volume reformat " + otherID + "`"
			hint := func(actions ...api.Action) string {
				problem := api.NewProblem(c.problem, detail).With(actions...)
				return a.hintFor(subjectError{fmt.Errorf("it failed: %w", problem), subject{instance: instanceID, flags: operateFlagOf}})
			}
			if got := hint(c.actions...); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			// The controller of before sends none: its words do not make a hint.
			if got := hint(); got != "" && c.problem != api.ProblemUnauthorized || strings.Contains(got, "confirm") {
				t.Errorf("without actions: %s", got)
			}
		})
	}
}
