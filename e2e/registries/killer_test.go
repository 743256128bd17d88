package registries

import (
	"time"

	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site"
)

// killedDuring kills the agent at each action that something causes, and returns how often
// it was killed.
func (m *machine) killedDuring(something func()) int {
	m.W.T.Helper()
	killer, err := site.StartKiller(m.W.T.Context(), m)
	if err != nil {
		m.W.T.Fatal(err)
	}
	something()
	moments, err := killer.Stop(m.W.T.Context())
	if err != nil {
		m.W.T.Error(err)
	}
	return len(moments)
}

func (c *cluster) killed(r *results.Case) {
	c.connected()
	address := secureAddress.Addr().String() + ":5000"
	registry.Open(c.T, c.Lab, registry.Options{Address: address})
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
		c.T.Errorf("the agent was killed %d and %d times only", came, went)
	}
	m.stays()
}
