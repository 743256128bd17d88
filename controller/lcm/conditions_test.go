package lcm_test

import (
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/desired"
	"github.com/nodehitch/nodehitch/controller/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A condition that held when the request came holds when it is done, or it is not done: in
// between, the stack is observed.
func TestAConditionHoldsUntilThePutIsDone(t *testing.T) {
	for what, meanwhile := range map[string]func(w *world){
		"a PUT":    func(w *world) { w.put(api.InstanceSpec{AdditionalParams: parameters("10.77.0.0/16")}) },
		"a file":   func(w *world) { w.upload(script, "#!/bin/bash\n") },
		"a DELETE": func(w *world) { w.must(w.LCM.Instances.DeleteInstance(w.ctx, instanceID)) },
	} {
		t.Run(what, func(t *testing.T) {
			w, c := inCloud(t)
			c.stacks[stackOne] = full()
			w.put(stackSpec(stackOne))
			w.upload(script, "#!/bin/sh\n")
			before := w.instance()
			asked := 0
			unchanged := func(now *api.Instance) error {
				asked++
				if now != nil && now.DesiredVersion == before.DesiredVersion && now.Files[0].Sha256 == before.Files[0].Sha256 {
					return nil
				}
				return api.NewProblem(api.ProblemPrecondition, "it is another")
			}
			c.meanwhile = func() { meanwhile(w) }
			s := stackSpec(stackOne)
			s.AdditionalParams = parameters("10.66.0.0/16")
			_, _, err := w.LCM.Instances.PutInstance(w.ctx, instanceID, s, unchanged)
			w.refused(err, api.ProblemPrecondition)
			if asked != 2 {
				t.Errorf("the condition was asked %d times, want 2", asked)
			}
			if what == "a DELETE" {
				w.refused(w.LCM.Instances.DeleteInstance(w.ctx, instanceID), api.ProblemNotFound)
			} else if strings.Contains(string(w.instance().AdditionalParams), "10.66.0.0/16") {
				t.Error("the PUT was done")
			}
		})
	}
}

// A secret that is kept is the one that is in force when the PUT is done.
func TestASecretThatWasReplacedMeanwhileStaysReplaced(t *testing.T) {
	w, c := inCloud(t)
	c.stacks[stackOne] = full()
	with := func(password string) api.InstanceSpec {
		s := stackSpec(stackOne)
		s.AdditionalParams = []byte(strings.Replace(string(s.AdditionalParams), `"worker_node": {`, `"worker_node": {"password": "`+password+`", `, 1))
		return s
	}
	w.put(with("hunter-One"))
	c.meanwhile = func() { w.put(with("hunter-Two")) }
	w.put(with("[redacted]"))
	w.must(w.LCM.Instances.Runner.View(instanceID, func(t *tx.Tx) error {
		d, err := desired.InForce(t)
		if err == nil && !strings.Contains(string(d.Raw), "hunter-Two") {
			w.Errorf("in force is %s", d.Raw)
		}
		return err
	}))
}
