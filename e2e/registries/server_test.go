package registries

import (
	"net/netip"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// token: the registry has no passwords of its own. The name of its realm is found by
// the same line of /etc/hosts.
func (c *cluster) token(*results.Case) {
	pair := c.ca.Issue(c.T, time.Now().Add(time.Hour), secureServer)
	at := secureAddress.Addr().String()
	tokens := registry.OpenTokens(c.T, c.Lab, at+":5443", secureServer, pair, map[string]string{"user01": password})
	registry.Open(c.T, c.Lab, registry.Options{Address: at + ":443", TLS: &pair, Tokens: tokens})
	message := c.refused(api.ReasonUnauthorized, secure(secureServer, "not-the-password"))
	if !strings.Contains(message, "incorrect username or password") {
		c.T.Errorf("the token service's own answer is not in the message: %s", message)
	}
	c.connected(secure(secureServer, password))
	c.crossed(secureServer)
}

// containerdStore: Docker 20.10 has no such store.
func (c *cluster) containerdStore(*results.Case) {
	c.connected()
	const file = "/etc/docker/daemon.json"
	for _, m := range c.workers {
		m.write(file, `{"features": {"containerd-snapshotter": true}}`)
		m.Run("systemctl", "restart", "docker")
		defer m.Run("systemctl", "restart", "docker")
		defer m.Run("rm", file)
	}
	defer c.connected()
	if info := c.workers[0].Run("docker", "info", "--format", "{{.ServerVersion}} {{.DriverStatus}}"); !strings.Contains(info, "io.containerd.snapshotter.v1") {
		c.T.Skipf("Docker stores its images itself: %s", info)
	}
	address := secureAddress.Addr().String() + ":5000"
	registry.Open(c.T, c.Lab, registry.Options{Address: address})
	r := c.serve("443", password, time.Now().Add(time.Hour))
	c.connected(plain(address), secure(secureServer, password))
	c.crossed(address)
	c.crossed(secureServer)

	pair := c.ca.Issue(c.T, time.Now().Add(time.Hour), secureServer)
	tokens := registry.OpenTokens(c.T, c.Lab, secureAddress.Addr().String()+":5443", secureServer, pair, map[string]string{"user01": password})
	r.Change(func(o *registry.Options) { o.Users, o.Tokens = nil, tokens })
	message := c.refused(api.ReasonCertificateRejected, secure(secureServer, password))
	if _, err := c.workers[0].tryPushNew(secureServer); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		c.T.Errorf("%s; and Docker says: %v", message, err)
	}
}

func (c *cluster) runningContainers(*results.Case) {
	c.connected()
	m := c.workers[0]
	image, err := registry.Server(0)
	if err != nil {
		c.T.Fatal(err)
	}
	m.load(image)
	m.Run("docker", "run", "--detach", "--name", "owners", "registry:latest")
	looks := func() string {
		return m.Run("docker", "inspect", "--format", "{{.State.StartedAt}} {{.State.Pid}} {{.RestartCount}} {{.State.Status}}", "owners") + " " +
			m.Run("systemctl", "show", "--property=MainPID", "docker")
	}
	before := looks()
	address := secureAddress.Addr().String() + ":5000"
	registry.Open(c.T, c.Lab, registry.Options{Address: address})
	c.serve("443", password, time.Now().Add(time.Hour))
	c.connected(plain(address), secure(secureServer, password))
	c.crossed(address) // so the daemon does know
	if after := looks(); after != before {
		c.T.Errorf("the container or Docker was\n%s\nis\n%s", before, after)
	}
	m.Run("docker", "rm", "--force", "owners")
}

// scaleOut adds a worker like Tacker: the stack has it before the END.
func (c *cluster) scaleOut(*results.Case) {
	c.serve("443", password, time.Now().Add(time.Hour))
	c.connected(secure(secureServer, password))
	address := netip.MustParsePrefix("192.168.0.14/24")
	s := c.Draw("worker", "workerNode_CP2", "", address.Addr())
	m := c.boot(c.spec(s, lab.EngineInstalled, address))[0]
	c.operate(api.Scale, "--type=SCALE_OUT", "--aspect-id=worker_instance", sitetest.ByOne)
	m.Says(api.ConditionRegistriesConnected, api.ReasonConnected)
	m.pulls(c.workers[0].pushNew(secureServer))
	c.workers[0].pulls(m.pushNew(secureServer))
	m.stays()
	c.workers = append(c.workers, m)
}

// heal puts another server in the place of the last worker.
func (c *cluster) heal(*results.Case) {
	c.serve("443", password, time.Now().Add(time.Hour))
	c.connected(secure(secureServer, password))
	last := len(c.workers) - 1
	c.Destroy(c.workers[last].Machine)
	c.workers[last] = c.replace(c.workers[last], netip.MustParsePrefix("192.168.0.15/24"))
	c.crossed(secureServer)
	c.workers[last].pulls(c.workers[0].pushNew(secureServer))
}

// replace heals a machine: a new server with a new id takes its place.
func (v *vnf) replace(old *machine, address netip.Prefix, disks ...lab.Disk) *machine {
	v.T.Helper()
	v.operate(api.Heal, sitetest.PhaseStart, sitetest.VNFC(old.Server))
	s := v.Redraw(old.Server, address.Addr())
	spec := v.spec(s, lab.EngineInstalled, address)
	spec.Disks = disks
	// Tacker calls the END when the new VM is there; its agent waits for that.
	m := v.boot(spec)[0]
	v.operate(api.Heal, sitetest.VNFC(s))
	return m
}
