package registries

import (
	"errors"
	"fmt"
	"time"

	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/shared/api"
)

// killedDuring kills the agent at each action that something causes, and returns how often
// it was killed.
func (m *machine) killedDuring(something func()) int {
	m.w.t.Helper()
	killer, err := site.StartKiller(m.w.t.Context(), m)
	if err != nil {
		m.w.t.Fatal(err)
	}
	something()
	moments, err := killer.Stop(m.w.t.Context())
	if err != nil {
		m.w.t.Error(err)
	}
	return len(moments)
}

func (c *cluster) killed(r *results.Case) {
	c.connected()
	address := secureAddress.Addr().String() + ":5000"
	registry.Open(c.t, c.lab, registry.Options{Address: address})
	c.serve("443", password, time.Now().Add(time.Hour))
	m := c.workers[0]
	came := m.killedDuring(func() { c.connected(plain(address), secure(secureServer, password)) })
	c.crossed(address)
	c.crossed(secureServer)
	went := m.killedDuring(func() { c.connected() })
	c.gone(address)
	c.gone(secureServer)
	r.Figure("killed", "%d times while registries were added, %d while they were removed", came, went)
	if came < 4 || went < 4 {
		c.t.Errorf("the agent was killed %d and %d times only", came, went)
	}
	m.stays()
}

// controllerKiller kills the controller whenever an operation has made progress.
type controllerKiller struct {
	last  string
	times int
}

// most is how often it kills: operations have to end.
const most = 8

func (k *controllerKiller) observe(v *vnf, op *api.Operation) error {
	if k == nil {
		return nil
	}
	now := fmt.Sprint(op.ID, op.Targets)
	if now == k.last || k.times == most {
		return nil
	}
	k.last = now
	k.times++
	return errors.Join(v.Kill(), v.Start(v.t.Context()))
}
