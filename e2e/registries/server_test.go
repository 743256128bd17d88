package registries

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// token: the registry has no passwords of its own. The name of its realm is found by
// the same line of /etc/hosts.
func (c *cluster) token(*results.Case) {
	pair := c.ca.Issue(c.t, time.Now().Add(time.Hour), secureServer)
	at := secureAddress.Addr().String()
	tokens := registry.OpenTokens(c.t, c.lab, at+":5443", secureServer, pair, map[string]string{"user01": password})
	registry.Open(c.t, c.lab, registry.Options{Address: at + ":443", TLS: &pair, Tokens: tokens})
	message := c.refused(api.ReasonUnauthorized, secure(secureServer, "not-the-password"))
	if !strings.Contains(message, "incorrect username or password") {
		c.t.Errorf("the token service's own answer is not in the message: %s", message)
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
		m.run("systemctl", "restart", "docker")
		defer m.run("systemctl", "restart", "docker")
		defer m.run("rm", file)
	}
	defer c.connected()
	if info := c.workers[0].run("docker", "info", "--format", "{{.ServerVersion}} {{.DriverStatus}}"); !strings.Contains(info, "io.containerd.snapshotter.v1") {
		c.t.Skipf("Docker stores its images itself: %s", info)
	}
	address := secureAddress.Addr().String() + ":5000"
	registry.Open(c.t, c.lab, registry.Options{Address: address})
	r := c.serve("443", password, time.Now().Add(time.Hour))
	c.connected(plain(address), secure(secureServer, password))
	c.crossed(address)
	c.crossed(secureServer)

	pair := c.ca.Issue(c.t, time.Now().Add(time.Hour), secureServer)
	tokens := registry.OpenTokens(c.t, c.lab, secureAddress.Addr().String()+":5443", secureServer, pair, map[string]string{"user01": password})
	r.Change(func(o *registry.Options) { o.Users, o.Tokens = nil, tokens })
	message := c.refused(api.ReasonCertificateRejected, secure(secureServer, password))
	if _, err := c.workers[0].tryPushNew(secureServer); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		c.t.Errorf("%s; and Docker says: %v", message, err)
	}
}

func (c *cluster) runningContainers(*results.Case) {
	c.connected()
	m := c.workers[0]
	image, err := registry.Server(0)
	if err != nil {
		c.t.Fatal(err)
	}
	m.load(image)
	m.run("docker", "run", "--detach", "--name", "owners", "registry:latest")
	looks := func() string {
		return m.run("docker", "inspect", "--format", "{{.State.StartedAt}} {{.State.Pid}} {{.RestartCount}} {{.State.Status}}", "owners") + " " +
			m.run("systemctl", "show", "--property=MainPID", "docker")
	}
	before := looks()
	address := secureAddress.Addr().String() + ":5000"
	registry.Open(c.t, c.lab, registry.Options{Address: address})
	c.serve("443", password, time.Now().Add(time.Hour))
	c.connected(plain(address), secure(secureServer, password))
	c.crossed(address) // so the daemon does know
	if after := looks(); after != before {
		c.t.Errorf("the container or Docker was\n%s\nis\n%s", before, after)
	}
	m.run("docker", "rm", "--force", "owners")
}

// scaleOut adds a worker like Tacker: the stack has it before the END.
func (c *cluster) scaleOut(*results.Case) {
	c.serve("443", password, time.Now().Add(time.Hour))
	c.connected(secure(secureServer, password))
	address := netip.MustParsePrefix("192.168.0.14/24")
	s := c.addServer("worker-c", "workerNode_CP2", address)
	spec := c.spec(s, lab.EngineInstalled, address)
	m := c.boot(spec)[0]
	c.operate(api.OperationRequest{Operation: api.Scale, Type: api.ScaleOut, AspectID: "worker_instance", NumberOfSteps: 1})
	m.is(api.ConditionRegistriesConnected, api.ReasonConnected)
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
	if err := c.workers[last].Destroy(); err != nil {
		c.t.Fatal(err)
	}
	c.workers[last] = c.replace(last, lab.EngineInstalled, "workerNode_CP2", netip.MustParsePrefix("192.168.0.15/24"))
	c.crossed(secureServer)
	c.workers[last].pulls(c.workers[0].pushNew(secureServer))
}

// replace heals the i-th server of the topology: a new one with a new id takes its place.
func (v *vnf) replace(i int, engine lab.Engine, cp string, address netip.Prefix, disks ...lab.Disk) *machine {
	v.t.Helper()
	old := v.topology.Servers[i]
	v.operateStart(api.OperationRequest{Operation: api.Heal, VnfcInstanceIds: []string{old.VnfcInstanceID}})
	v.topology.Servers = append(v.topology.Servers[:i:i], v.topology.Servers[i+1:]...)
	s := v.addServer(fmt.Sprintf("healed-%s", uuid.NewString()[:8]), cp, address)
	for _, d := range disks {
		v.topology.Servers[len(v.topology.Servers)-1].VolumeIds = append(s.VolumeIds, d.VolumeID)
	}
	spec := v.spec(s, engine, address)
	spec.Disks = disks
	// Tacker calls the END when the new VM is there; its agent waits for that.
	m := v.boot(spec)[0]
	v.operate(api.OperationRequest{Operation: api.Heal, VnfcInstanceIds: []string{s.VnfcInstanceID}})
	return m
}

// operateStart is the START of an operation, with the topology before it.
func (v *vnf) operateStart(o api.OperationRequest) {
	v.t.Helper()
	o.Phase = api.PhaseStart
	v.operate(o)
}
