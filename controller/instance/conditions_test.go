package instance_test

import (
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/desired"
	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/controller/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A condition that held when the request came holds when it is done, or it is not done: in
// between, the stack is observed.
func TestAConditionHoldsUntilThePutIsDone(t *testing.T) {
	for what, meanwhile := range map[string]func(w *lcmtest.World){
		"a PUT":    func(w *lcmtest.World) { w.Put(api.InstanceSpec{AdditionalParams: lcmtest.Parameters("10.77.0.0/16")}) },
		"a file":   func(w *lcmtest.World) { w.Upload(lcmtest.ScriptFile, "#!/bin/bash\n") },
		"a DELETE": func(w *lcmtest.World) { w.Must(w.LCM.Instances.DeleteInstance(w.Ctx, lcmtest.InstanceID)) },
	} {
		t.Run(what, func(t *testing.T) {
			w, c := lcmtest.InCloud(t)
			c.Stacks[lcmtest.StackOne] = lcmtest.FullTopology()
			w.Put(lcmtest.StackSpec(lcmtest.StackOne))
			w.Upload(lcmtest.ScriptFile, "#!/bin/sh\n")
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
			s := lcmtest.StackSpec(lcmtest.StackOne)
			s.AdditionalParams = lcmtest.Parameters("10.66.0.0/16")
			_, _, err := w.LCM.Instances.PutInstance(w.Ctx, lcmtest.InstanceID, s, unchanged)
			w.WantRefused(err, api.ProblemPrecondition)
			if asked != 2 {
				t.Errorf("the condition was asked %d times, want 2", asked)
			}
			if what == "a DELETE" {
				w.WantRefused(w.LCM.Instances.DeleteInstance(w.Ctx, lcmtest.InstanceID), api.ProblemNotFound)
			} else if strings.Contains(string(w.Instance().AdditionalParams), "10.66.0.0/16") {
				t.Error("the PUT was done")
			}
		})
	}
}

// A secret that is kept is the one that is in force when the PUT is done.
func TestASecretThatWasReplacedMeanwhileStaysReplaced(t *testing.T) {
	w, c := lcmtest.InCloud(t)
	c.Stacks[lcmtest.StackOne] = lcmtest.FullTopology()
	with := func(password string) api.InstanceSpec {
		s := lcmtest.StackSpec(lcmtest.StackOne)
		s.AdditionalParams = []byte(strings.Replace(string(s.AdditionalParams), `"worker_node": {`, `"worker_node": {"password": "`+password+`", `, 1))
		return s
	}
	w.Put(with("hunter-One"))
	c.Meanwhile = func() { w.Put(with("hunter-Two")) }
	w.Put(with("[redacted]"))
	w.Must(w.LCM.Instances.Runner.View(lcmtest.InstanceID, func(t *tx.Tx) error {
		d, err := desired.InForce(t)
		if err == nil && !strings.Contains(string(d.Raw), "hunter-Two") {
			w.Errorf("in force is %s", d.Raw)
		}
		return err
	}))
}
