package attestation_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack"
	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/trust/attestation"
	"github.com/nodehitch/nodehitch/shared/api"
)

const strange = "55555555-0000-4000-8000-000000000001"

// wrong is a situation in which the worker must not enroll.
type wrong struct {
	is            func(w *world)
	problem, says string
	reason        string
	// hides must not be in what the machine is told.
	hides string
}

var allWrong = map[string]wrong{
	"no such server": {func(w *world) { w.cloud.Remove(worker) },
		api.ProblemNotAttested, "Nova has no server " + worker, attestation.EventUnknownServer, ""},
	"of another project, which Nova does not show": {func(w *world) { w.cloud.Put(openstacktest.Server{ID: worker, Project: "other"}) },
		api.ProblemNotAttested, "Nova has no server " + worker, attestation.EventUnknownServer, ""},
	"of another project, which an administrator sees": {func(w *world) { w.elsewhere("elsewhere") },
		api.ProblemNotAttested, "another project", attestation.EventOtherProject, "elsewhere"},
	"shut off": {func(w *world) { w.cloud.Put(openstacktest.Server{ID: worker, Status: "SHUTOFF"}) },
		api.ProblemNotAttested, "is SHUTOFF, expected ACTIVE or BUILD", attestation.EventStatus, ""},
	"in error": {func(w *world) { w.cloud.Put(openstacktest.Server{ID: worker, Status: "ERROR"}) },
		api.ProblemNotAttested, "is ERROR", attestation.EventStatus, ""},
	"of no stack": {func(w *world) { w.cloud.Put(openstacktest.Stack{ID: stack, Name: "vnf-1"}) },
		api.ProblemNotAttested, "is no resource of the Heat stack vnf-1 (" + stack + ")", attestation.EventNotInStack, ""},
	"of another stack": {func(w *world) {
		w.cloud.Put(openstacktest.Stack{ID: stack, Name: "vnf-1"},
			openstacktest.Stack{ID: strange, Name: "vnf-2", Resources: []openstacktest.Resource{{Name: "worker", Type: "OS::Nova::Server", PhysicalID: worker}}})
	}, api.ProblemNotAttested, "is no resource of the Heat stack vnf-1", attestation.EventNotInStack, "vnf-2"},
	"deleted in its stack": {func(w *world) {
		w.cloud.Put(openstacktest.Stack{ID: stack, Name: "vnf-1", Resources: []openstacktest.Resource{
			{Name: "worker", Type: "OS::Nova::Server", PhysicalID: worker, Status: "DELETE_COMPLETE"}}})
	}, api.ProblemNotAttested, "is no resource of", attestation.EventNotInStack, ""},
	"the stack is gone": {func(w *world) { w.cloud.Remove(stack) },
		api.ProblemNotAttested, "The Heat stack " + stack, attestation.EventStackGone, ""},
	"no stack is known": {func(w *world) { w.update(func(tx *store.Tx) error { return w.desire(tx, "") }) },
		api.ProblemNotAttested, "stackId", attestation.EventNoStack, ""},
	"no cloud is known": {func(w *world) {
		w.nova.Cloud = func(context.Context, json.RawMessage) (attestation.Cloud, error) { return nil, openstack.ErrNoCloud }
	},
		api.ProblemNotAttested, "vimConnectionInfo", attestation.EventNoCloud, ""},
	"another address": {func(w *world) {
		w.nova.SourceAddress = true
		w.cloud.Put(openstacktest.Server{ID: worker, Addresses: map[string][]string{"lab": {"10.10.0.8"}}})
	}, api.ProblemNotAttested, "came from 10.10.0.7", attestation.EventSourceAddress, "10.10.0.8"},
	"no address": {func(w *world) {
		w.nova.SourceAddress = true
		w.cloud.Put(openstacktest.Server{ID: worker})
	}, api.ProblemNotAttested, "came from 10.10.0.7", attestation.EventSourceAddress, ""},
	"Keystone is away":       away(openstacktest.Login, "Nova did not answer"),
	"Nova is away":           away(openstacktest.ServerByID, "Nova did not answer"),
	"Heat is away":           away(openstacktest.Stacks, "Heat did not answer"),
	"Heat fails later":       away(openstacktest.Resources, "Heat did not answer"),
	"Nova takes no metadata": away(openstacktest.SetMetadata, "Nova did not answer"),
	"Nova may not be asked": {func(w *world) { w.cloud.Deny(openstacktest.ServerByID) },
		api.ProblemCloudError, "may not ask Nova", attestation.EventCloud, openstacktest.AppID},
	"Heat may not be asked": {func(w *world) {
		w.cloud.Fail(openstacktest.Resources, openstacktest.Fault{Status: http.StatusForbidden})
	},
		api.ProblemCloudError, "may not ask Heat", attestation.EventCloud, ""},
	"a wrong password": {func(w *world) {
		w.cloud.Fail(openstacktest.Login, openstacktest.Fault{Status: http.StatusUnauthorized})
	},
		api.ProblemCloudError, "Nova", attestation.EventCloud, openstacktest.User},
	"the server has a task": {func(w *world) {
		w.cloud.Fail(openstacktest.SetMetadata, openstacktest.Fault{Status: http.StatusConflict})
	},
		api.ProblemCloudError, "cannot prove yet that it is the server " + worker, attestation.EventBusy, ""},
	"the server goes meanwhile": {func(w *world) {
		w.cloud.Fail(openstacktest.SetMetadata, openstacktest.Fault{Status: http.StatusNotFound})
	},
		api.ProblemNotAttested, "Nova has no server " + worker, attestation.EventUnknownServer, ""},
	"a nonce is required and cannot be written": {func(w *world) {
		w.restart(attestation.Required)
		w.cloud.Deny(openstacktest.SetMetadata)
	}, api.ProblemNotAttested, "may not write the metadata", attestation.EventNonceForbidden, ""},
}

// away is a service that fails; no server enrolls meanwhile.
func away(call, says string) wrong {
	return wrong{func(w *world) {
		w.cloud.Fail(call, openstacktest.Fault{Status: http.StatusServiceUnavailable, Body: "<html>internal-7"})
	},
		api.ProblemCloudError, says, attestation.EventCloud, "internal-7"}
}

func TestServersThatDoNotEnroll(t *testing.T) {
	for name, c := range allWrong {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.is(w)
			detail := wantRefusal(t, w.boot(worker).enroll(""), c.problem, c.reason)
			if !strings.Contains(strings.ToLower(detail), strings.ToLower(c.says)) || c.hides != "" && strings.Contains(detail, c.hides) {
				t.Errorf("it is told: %s", detail)
			}
			if w.identity(worker) != nil || w.counted()[c.reason] != 1 || w.counted()["enrolled"] != 0 {
				t.Errorf("%+v, events %v", w.identity(worker), w.counted())
			}
			if w.logged("event="+api.EventEnrollmentRefused) != 1 || w.logged("reason="+c.reason) != 1 {
				t.Error("the log does not say why")
			}
		})
	}
}

// A machine that hangs up does not make the cloud count as unavailable.
func TestAMachineThatHangsUpIsNoUnavailableCloud(t *testing.T) {
	w := newWorld(t)
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	if err := w.boot(worker).enrollAs(ctx, remote, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the end of the machine's own request", err)
	}
	if n := w.counted(); len(n) > 0 {
		t.Errorf("events %v, want none", n)
	}
	w.boot(worker).asked()
}

// elsewhere gives the controller an administrator's credential for another project.
func (w *world) elsewhere(project string) {
	of := w.nova.Cloud
	w.nova.Cloud = func(ctx context.Context, vim json.RawMessage) (attestation.Cloud, error) {
		cloud, err := of(ctx, vim)
		return administrator{cloud, project}, err
	}
}

type administrator struct {
	attestation.Cloud
	project string
}

func (a administrator) Project(context.Context) (string, error) { return a.project, nil }

// What is wrong passes, and the machine that asks again gets in.
func TestWhatIsWrongPasses(t *testing.T) {
	for name, right := range map[string]func(w *world){
		"shut off":     func(w *world) { w.cloud.Put(openstacktest.Server{ID: worker, Status: "BUILD"}) },
		"Nova is away": func(w *world) { w.cloud.Fail(openstacktest.ServerByID, openstacktest.Fault{}) },
		"of no stack": func(w *world) {
			w.cloud.Put(openstacktest.Stack{ID: stack, Name: "vnf-1", Resources: []openstacktest.Resource{{Name: "w", Type: "OS::Nova::Server", PhysicalID: worker}}})
		},
		"the server has a task": func(w *world) { w.cloud.Fail(openstacktest.SetMetadata, openstacktest.Fault{}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			allWrong[name].is(w)
			m := w.boot(worker)
			wantRefusal(t, m.enroll(""), allWrong[name].problem, allWrong[name].reason)
			right(w)
			before := w.cloud.Calls()
			wantRefusal(t, m.enroll(""), allWrong[name].problem, allWrong[name].reason)
			if after := w.cloud.Calls(); after[openstacktest.ServerByID] != before[openstacktest.ServerByID] || after[openstacktest.SetMetadata] != before[openstacktest.SetMetadata] {
				t.Errorf("the cloud is asked all the time: %v, then %v", before, after)
			}
			w.Clock.Advance(failureCounts)
			wantOK(t, m.enroll(m.asked()))
		})
	}
}

// Instances are often given the name of their stack: another of that name counts, once
// the first is gone.
func TestAStackThatTookTheNameOfAnother(t *testing.T) {
	w := newWorld(t)
	w.update(func(tx *store.Tx) error { return w.desire(tx, "vnf-1") })
	wantRefusal(t, w.boot(master).enroll(""), api.ProblemNonceRequired, attestation.EventNonceAsked)
	w.cloud.Remove(stack)
	w.cloud.Put(openstacktest.Stack{ID: strange, Name: "vnf-1", Resources: []openstacktest.Resource{{Name: "worker", Type: "OS::Nova::Server", PhysicalID: worker}}})
	m := w.boot(worker)
	wantRefusal(t, m.enroll(""), api.ProblemNotAttested, attestation.EventStackGone)
	wantOK(t, m.enroll(m.asked()))
}

func TestSourceAddresses(t *testing.T) {
	w := newWorld(t)
	w.nova.SourceAddress = true
	w.cloud.Put(openstacktest.Server{ID: worker, Addresses: map[string][]string{"lab": {"10.10.0.7", "203.0.113.9"}, "v6": {"2001:db8::7"}}})
	for _, from := range []string{"10.10.0.7", "203.0.113.9", "2001:db8::7", "::ffff:10.10.0.7"} {
		wantRefusal(t, w.boot(worker).enrollAs(t.Context(), netip.MustParseAddr(from), ""), api.ProblemNonceRequired, attestation.EventNonceAsked)
	}
	wantRefusal(t, w.boot(worker).enrollAs(t.Context(), netip.MustParseAddr("10.10.0.77"), ""), api.ProblemNotAttested, attestation.EventSourceAddress)
}
