package lcm_test

import (
	"errors"

	"github.com/nodehitch/nodehitch/controller/lcm/lcmtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// faults is every fault of a request that was refused.
func faults(w *lcmtest.World, err error) []api.Fault {
	w.Helper()
	w.WantRefused(err, api.ProblemInvalid)
	var p *api.Problem
	errors.As(err, &p)
	return p.InvalidParams
}
