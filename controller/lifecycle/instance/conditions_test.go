package instance_test

import (
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/desired"
	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A condition that held when the request came holds when it is done, or it is not done: in
// between, the stack is observed.
func TestAConditionHoldsUntilThePutIsDone(t *testing.T) {
	for what, meanwhile := range map[string]func(w *lifecycletest.World){
		"a PUT": func(w *lifecycletest.World) {
			w.Put(api.InstanceSpec{AdditionalParams: lifecycletest.Parameters("10.77.0.0/16")})
		},
		"a file": func(w *lifecycletest.World) { w.Upload(lifecycletest.ScriptFile, "#!/bin/bash\n") },
		"a DELETE": func(w *lifecycletest.World) {
			w.Must(w.Lifecycle.Instances.DeleteInstance(w.Ctx, lifecycletest.InstanceID))
		},
	} {
		t.Run(what, func(t *testing.T) {
			w, c := lifecycletest.InCloud(t)
			c.Stacks[lifecycletest.StackOne] = lifecycletest.FullTopology()
			w.Put(lifecycletest.StackSpec(lifecycletest.StackOne))
			w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
			before := w.Instance()
			asked := 0
			unchanged := func(now *api.Instance) error {
				asked++
				if now != nil && now.DesiredVersion == before.DesiredVersion && now.Files[0].Sha256 == before.Files[0].Sha256 {
					return nil
				}
				return api.NewProblem(api.ProblemPrecondition, "it is another")
			}
			c.Meanwhile = func() { meanwhile(w) }
			s := lifecycletest.StackSpec(lifecycletest.StackOne)
			s.AdditionalParams = lifecycletest.Parameters("10.66.0.0/16")
			_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, s, unchanged)
			w.WantRefused(err, api.ProblemPrecondition)
			if asked != 2 {
				t.Errorf("the condition was asked %d times, want 2", asked)
			}
			if what == "a DELETE" {
				w.WantRefused(w.Lifecycle.Instances.DeleteInstance(w.Ctx, lifecycletest.InstanceID), api.ProblemNotFound)
			} else if strings.Contains(string(w.Instance().AdditionalParams), "10.66.0.0/16") {
				t.Error("the PUT was done")
			}
		})
	}
}

// A secret that is kept is the one that is in force when the PUT is done.
func TestASecretThatWasReplacedMeanwhileStaysReplaced(t *testing.T) {
	w, c := lifecycletest.InCloud(t)
	c.Stacks[lifecycletest.StackOne] = lifecycletest.FullTopology()
	with := func(password string) api.InstanceSpec {
		s := lifecycletest.StackSpec(lifecycletest.StackOne)
		s.AdditionalParams = []byte(strings.Replace(string(s.AdditionalParams), `"worker_node": {`, `"worker_node": {"password": "`+password+`", `, 1))
		return s
	}
	w.Put(with("hunter-One"))
	c.Meanwhile = func() { w.Put(with("hunter-Two")) }
	w.Put(with("[redacted]"))
	w.Must(w.Lifecycle.Instances.Runner.View(lifecycletest.InstanceID, func(t *tx.Tx) error {
		d, err := desired.InForce(t)
		if err == nil && !strings.Contains(string(d.Raw), "hunter-Two") {
			w.Errorf("in force is %s", d.Raw)
		}
		return err
	}))
}
