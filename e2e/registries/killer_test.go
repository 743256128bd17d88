package registries

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/shared/api"
)

// killedFile has the moments in which the agent was killed.
const killedFile = "/run/lab-killed"

// haunt starts the killer on a machine, whose agent is started again at once.
func (m *machine) haunt() {
	m.w.t.Helper()
	if err := m.Push(m.w.t.Context(), "/root/killer.py", 0o700, site.AgentKiller); err != nil {
		m.w.t.Fatal(err)
	}
	m.write("/etc/systemd/system/nodehitch-agent.service.d/lab.conf", "[Service]\nRestartSec=100ms\n")
	m.run("systemctl", "daemon-reload")
	m.run("rm", "-f", killedFile)
	m.run("systemd-run", "--quiet", "--unit=lab-killer", "/root/killer.py", killedFile)
	m.w.until("the killer looks", func() error {
		_, err := m.try("test", "-e", killedFile)
		return err
	})
}

// relieve ends it and returns the moments at which it has killed.
func (m *machine) relieve() []string {
	m.w.t.Helper()
	m.run("systemctl", "stop", "lab-killer")
	return strings.FieldsFunc(m.read(killedFile), func(r rune) bool { return r == '\n' })
}

func (c *cluster) killed(r *results.Case) {
	c.connected()
	address := secureAddress.Addr().String() + ":5000"
	registry.Open(c.t, c.lab, registry.Options{Address: address})
	c.serve("443", password, time.Now().Add(time.Hour))
	m := c.workers[0]
	m.haunt()
	c.connected(plain(address), secure(secureServer, password))
	came := len(m.relieve())
	c.crossed(address)
	c.crossed(secureServer)
	m.haunt()
	c.connected()
	went := m.relieve()
	c.gone(address)
	c.gone(secureServer)
	r.Figure("killed", "%d times while registries came, %d while they went", came, len(went))
	if came < 4 || len(went) < 4 {
		c.t.Errorf("the agent was hardly killed: %d, %q", came, went)
	}
	m.stays()
}

// controllerKiller kills the controller whenever an operation at work has got on.
type controllerKiller struct {
	last  string
	times int
}

// most is how often it kills: operations have to end.
const most = 8

func (k *controllerKiller) look(v *vnf, op *api.Operation) error {
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
