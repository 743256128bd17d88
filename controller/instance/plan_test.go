package instance_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
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
	w := lcmtest.New(t)
	other := lcmtest.Spec(lcmtest.FullTopology())
	other.AdditionalParams = lcmtest.Parameters("10.20.0.0/24")
	alone := lcmtest.Spec(lcmtest.TopologyOf(lcmtest.Server(lcmtest.StorageServer, "storage")))
	alone.AdditionalParams = other.AdditionalParams
	nodes := lcmtest.FullTopology().Servers
	everything := map[string]string{}
	for _, s := range nodes {
		everything[s.ID] = "Added"
	}
	gone := map[string]string{}
	for _, s := range nodes {
		if s.ID != lcmtest.StorageServer {
			gone[s.ID] = "Removed"
		}
	}
	for _, step := range []struct {
		name string
		put  api.InstanceSpec
		want map[string]string
	}{
		{"a new instance", lcmtest.Spec(lcmtest.FullTopology()), everything},
		{"the same again", lcmtest.Spec(lcmtest.FullTopology()), map[string]string{}},
		{"another network for exports", other, map[string]string{lcmtest.StorageServer: "Changed"}},
		{"the storage server alone", alone, gone},
	} {
		var plan api.InstancePlan
		if w.Writes(func() {
			var err error
			plan, err = w.LCM.Instances.PlanInstance(w.Ctx, lcmtest.InstanceID, step.put)
			w.Must(err)
		}) {
			t.Errorf("%s: the plan has written", step.name)
		}
		if step.name == "a new instance" {
			_, err := w.LCM.Instances.GetInstance(w.Ctx, lcmtest.InstanceID)
			w.WantRefused(err, api.ProblemNotFound)
		}
		if diff := cmp.Diff(step.want, changed(plan)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
		got := w.Put(step.put)
		if diff := cmp.Diff(got, plan.Instance, cmpopts.IgnoreFields(api.Instance{}, "CreatedAt", "UpdatedAt")); diff != "" {
			t.Errorf("%s: planned and put (-put +planned):\n%s", step.name, diff)
		}
	}
}

func TestAPlanIsRefusedAsThePutIs(t *testing.T) {
	w := lcmtest.New(t)
	bad := lcmtest.Spec(lcmtest.FullTopology())
	bad.Topology.Servers[0].ID = "storage"
	_, err := w.LCM.Instances.PlanInstance(w.Ctx, lcmtest.InstanceID, bad)
	w.WantRefused(err, api.ProblemInvalid, "/topology/servers/0/id")
	w.Put(lcmtest.Spec(lcmtest.FullTopology()))
	foreign := lcmtest.UUID(9, 9)
	_, err = w.LCM.Instances.PlanInstance(w.Ctx, foreign, lcmtest.Spec(lcmtest.FullTopology()))
	w.WantRefused(err, api.ProblemInvalid, "belongs to VNF instance "+lcmtest.InstanceID)
}
