package lcm_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nodehitch/nodehitch/shared/api"
)

// changed is what a plan says of the nodes, by id.
func changed(plan api.InstancePlan) map[string]string {
	out := map[string]string{}
	for _, n := range plan.Nodes {
		out[n.ID] = string(n.Change)
	}
	return out
}

func TestAPlanSaysWhatThePutDoesAndWritesNothing(t *testing.T) {
	w := newWorld(t)
	other := spec(full())
	other.AdditionalParams = parameters("10.20.0.0/24")
	alone := spec(topologyOf(server(storageServer, "storage")))
	alone.AdditionalParams = other.AdditionalParams
	nodes := full().Servers
	everything := map[string]string{}
	for _, s := range nodes {
		everything[s.ID] = "Added"
	}
	gone := map[string]string{}
	for _, s := range nodes {
		if s.ID != storageServer {
			gone[s.ID] = "Removed"
		}
	}
	for _, step := range []struct {
		name string
		put  api.InstanceSpec
		want map[string]string
	}{
		{"a new instance", spec(full()), everything},
		{"the same again", spec(full()), map[string]string{}},
		{"another network for exports", other, map[string]string{storageServer: "Changed"}},
		{"the storage server alone", alone, gone},
	} {
		var plan api.InstancePlan
		if w.writes(func() {
			var err error
			plan, err = w.LCM.Instances.PlanInstance(w.ctx, instanceID, step.put)
			w.must(err)
		}) {
			t.Errorf("%s: the plan has written", step.name)
		}
		if step.name == "a new instance" {
			_, err := w.LCM.Instances.GetInstance(w.ctx, instanceID)
			w.refused(err, api.ProblemNotFound)
		}
		if diff := cmp.Diff(step.want, changed(plan)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
		got := w.put(step.put)
		if diff := cmp.Diff(got, plan.Instance, cmpopts.IgnoreFields(api.Instance{}, "CreatedAt", "UpdatedAt")); diff != "" {
			t.Errorf("%s: planned and put (-put +planned):\n%s", step.name, diff)
		}
	}
}

func TestAPlanIsRefusedAsThePutIs(t *testing.T) {
	w := newWorld(t)
	bad := spec(full())
	bad.Topology.Servers[0].ID = "storage"
	_, err := w.LCM.Instances.PlanInstance(w.ctx, instanceID, bad)
	w.refused(err, api.ProblemInvalid, "/topology/servers/0/id")
	w.put(spec(full()))
	foreign := uuid(9, 9)
	_, err = w.LCM.Instances.PlanInstance(w.ctx, foreign, spec(full()))
	w.refused(err, api.ProblemInvalid, "belongs to VNF instance "+instanceID)
}
