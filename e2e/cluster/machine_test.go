package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/shared/api"
)

// machine is a server that has been booted.
type machine struct {
	lab.Node
	w      *world
	server api.Server
}

// power starts the machine of a server, a storage server's in a VM with its volume.
// A VM's cloud-init does not run: what it is to do is left to the caller.
func (c *cluster) power(s api.Server, userData []byte) (*machine, error) {
	spec := lab.Spec{
		Name: strings.ReplaceAll(s.Name, "_", "-"), ServerID: s.ID,
		Address: netip.MustParseAddr(s.ConnectionPoints[0].Addresses[0]),
		CPUs:    c.share(s),
	}
	start := c.Lab.Nspawn
	if len(s.VolumeIds) > 0 {
		start, spec.Disks = c.Lab.VM, []lab.Disk{c.volume}
	} else {
		spec.UserData, spec.NFSClient = userData, c.shape.installed
	}
	node, err := start(c.t.Context(), spec)
	return &machine{node, c.world, s}, err
}

// boot boots machines side by side, with the instance's user_data and nothing else.
func (c *cluster) boot(servers ...api.Server) []*machine {
	c.t.Helper()
	userData := []byte(c.must("render", "user-data", c.id))
	return c.bootThen(userData, func(m *machine) error {
		if err := c.disruption.startKiller(m); err != nil || !m.virtual() {
			return err
		}
		return c.inject(m, userData)
	}, servers...)
}

// inject counts its CPU time as the lab's, because in a cloud nothing is injected.
func (c *cluster) inject(m *machine, userData []byte) error {
	before, err := c.Lab.CPUTime(m)
	if err != nil {
		return err
	}
	if err := site.Inject(c.t.Context(), m, userData); err != nil {
		return err
	}
	after, err := c.Lab.CPUTime(m)
	c.injected = after - before
	return err
}

// bootThen boots machines side by side and does something with each as soon as it is up.
func (c *cluster) bootThen(userData []byte, then func(*machine) error, servers ...api.Server) []*machine {
	c.t.Helper()
	machines, errs := make([]*machine, len(servers)), make([]error, len(servers))
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() {
			m, err := c.power(s, userData)
			if err == nil {
				err = then(m)
			}
			machines[i], errs[i] = m, err
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		c.t.Fatal(err)
	}
	c.machines = append(c.machines, machines...)
	return machines
}

func (m *machine) virtual() bool { return len(m.server.VolumeIds) > 0 }

// try runs a program and returns what it printed, without the white space around
// it; its error has what it said on standard error.
func (m *machine) try(argv ...string) (string, error) {
	out, err := m.Exec(m.w.t.Context(), argv...)
	return strings.TrimSpace(string(out)), err
}

// run runs a program that has to succeed.
func (m *machine) run(argv ...string) string {
	m.w.t.Helper()
	out, err := m.try(argv...)
	if err != nil {
		m.w.t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// node is the machine as the controller sees it.
func (m *machine) node() (*api.Node, error) {
	var n api.Node
	err := m.w.JSON(m.w.t.Context(), &n, "get", "node", m.ServerID())
	return &n, err
}

// says waits until the controller has a condition of the machine with this reason,
// for the document in force, and returns its message.
func (m *machine) says(condition string, reason api.Reason) (message string) {
	m.w.t.Helper()
	m.w.until(fmt.Sprintf("%s: %s is %s", m.Name(), condition, reason), func() error {
		n, err := m.node()
		if err != nil {
			return err
		}
		c := n.Status.Condition(condition)
		if c == nil || c.Reason != reason || n.Status.ObservedDigest != n.Digest {
			return fmt.Errorf("generation %d, withheld %v, status %+v", n.Generation, n.Withheld, n.Status)
		}
		message = c.Message
		return nil
	})
	return message
}

// someSays waits until one of the machines has the condition with this reason.
func (c *cluster) someSays(list []*machine, condition string, reason api.Reason) {
	c.t.Helper()
	c.until(fmt.Sprintf("%s is %s somewhere", condition, reason), func() error {
		var said []string
		for _, m := range list {
			n, err := m.node()
			if err != nil {
				return err
			}
			found := n.Status.Condition(condition)
			if found != nil && found.Reason == reason && n.Status.ObservedDigest == n.Digest {
				return nil
			}
			said = append(said, fmt.Sprintf("%s: %+v", m.Name(), found))
		}
		return fmt.Errorf("%q", said)
	})
}

// ready waits until the machine is Ready for the document in force.
func (m *machine) ready() {
	m.w.t.Helper()
	m.w.until(m.Name()+" is Ready", func() error {
		n, err := m.node()
		if err == nil && (!n.Ready || n.Status.AppliedDigest != n.Digest) {
			err = fmt.Errorf("generation %d, withheld %v, status %+v", n.Generation, n.Withheld, n.Status)
		}
		return err
	})
}

// mounts asserts that the machine can mount what the storage server exports: it has
// the client, whether or not this host's kernel has the file system.
func (m *machine) mounts() {
	m.w.t.Helper()
	if out := m.run("mount.nfs4", "-V"); !strings.Contains(out, "nfs-utils") {
		m.w.t.Errorf("%s: mount.nfs4 -V says %q", m.Name(), out)
	}
}

// explain shows what the machines have to say when the test has failed.
func (c *cluster) explain() {
	if !c.t.Failed() {
		return
	}
	for _, m := range c.machines {
		m.explain()
	}
}

func (m *machine) explain() {
	ctx := context.WithoutCancel(m.w.t.Context())
	for _, look := range [][]string{
		{"nodehitch-agent", "status"},
		{"journalctl", "-u", "nodehitch*", "--no-pager", "-n", "60", "-o", "cat"},
	} {
		out, err := m.Exec(ctx, look...)
		m.w.t.Logf("%s: %v: %v\n%s", m.Name(), look, err, out)
	}
}

// second is the outcome of another pass over a converged machine.
type second struct {
	Converged bool
	Steps     []struct{ Planned []string }
	Changes   map[string]int64
}

// stays asserts that another pass plans nothing and changes nothing.
func (m *machine) stays() {
	m.w.t.Helper()
	m.ready()
	m.run("systemctl", "stop", "nodehitch-agent")
	out, err := m.try("nodehitch-agent", "apply", "--filename", "/var/lib/nodehitch/agent/last-known-good.json", "--output", "json")
	m.run("systemctl", "start", "nodehitch-agent")
	if err != nil {
		m.w.t.Errorf("%s: a second pass: %v", m.Name(), err)
	}
	var pass second
	if err := json.Unmarshal([]byte(out), &pass); err != nil {
		m.w.t.Fatalf("%s: %v: %s", m.Name(), err, out)
	}
	if !pass.Converged || len(pass.Steps) == 0 || len(pass.Changes) == 0 {
		m.w.t.Errorf("%s: a second pass: %s", m.Name(), out)
	}
	for _, step := range pass.Steps {
		if len(step.Planned) > 0 {
			m.w.t.Errorf("%s: a second pass plans %q", m.Name(), step.Planned)
		}
	}
	for what, n := range pass.Changes {
		if n != 0 {
			m.w.t.Errorf("%s: a second pass changes %d %s", m.Name(), n, what)
		}
	}
}
