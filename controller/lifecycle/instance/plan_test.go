package instance_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
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
	w := lifecycletest.New(t)
	other := lifecycletest.Spec(lifecycletest.FullTopology())
	other.AdditionalParams = lifecycletest.Parameters("10.20.0.0/24")
	alone := lifecycletest.Spec(lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.StorageServer, "storage")))
	alone.AdditionalParams = other.AdditionalParams
	nodes := lifecycletest.FullTopology().Servers
	everything := map[string]string{}
	for _, s := range nodes {
		everything[s.ID] = "Added"
	}
	gone := map[string]string{}
	for _, s := range nodes {
		if s.ID != lifecycletest.StorageServer {
			gone[s.ID] = "Removed"
		}
	}
	for _, step := range []struct {
		name string
		put  api.InstanceSpec
		want map[string]string
	}{
		{"a new instance", lifecycletest.Spec(lifecycletest.FullTopology()), everything},
		{"the same again", lifecycletest.Spec(lifecycletest.FullTopology()), map[string]string{}},
		{"another network for exports", other, map[string]string{lifecycletest.StorageServer: "Changed"}},
		{"the storage server alone", alone, gone},
	} {
		var plan api.InstancePlan
		if w.Writes(func() {
			var err error
			plan, err = w.Lifecycle.Instances.PlanInstance(w.Ctx, lifecycletest.InstanceID, step.put)
			w.Must(err)
		}) {
			t.Errorf("%s: the plan has written", step.name)
		}
		if step.name == "a new instance" {
			_, err := w.Lifecycle.Instances.GetInstance(w.Ctx, lifecycletest.InstanceID)
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
	w := lifecycletest.New(t)
	bad := lifecycletest.Spec(lifecycletest.FullTopology())
	bad.Topology.Servers[0].ID = "storage"
	_, err := w.Lifecycle.Instances.PlanInstance(w.Ctx, lifecycletest.InstanceID, bad)
	w.WantRefused(err, api.ProblemInvalid, "/topology/servers/0/id")
	w.Put(lifecycletest.Spec(lifecycletest.FullTopology()))
	foreign := lifecycletest.UUID(9, 9)
	_, err = w.Lifecycle.Instances.PlanInstance(w.Ctx, foreign, lifecycletest.Spec(lifecycletest.FullTopology()))
	w.WantRefused(err, api.ProblemInvalid, "belongs to VNF instance "+lifecycletest.InstanceID)
}
