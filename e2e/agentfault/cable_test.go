package agentfault

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/loopback"
)

// The addresses at the ends of a cable.
const (
	controllerEnd = "10.77.0.1"
	anotherEnd    = "10.77.0.3" // of the controller, once it has moved
	agentEnd      = "10.77.0.2"
	port          = "8443"
)

// cable joins two network namespaces of the test's own, one for the controller and
// one for the agent. It is damaged at the agent's end.
type cable struct {
	t                 *testing.T
	controller, agent string // the namespaces
}

var cables atomic.Int32 // made so far

func newCable(t *testing.T) *cable {
	t.Helper()
	loopback.RequireRoot(t)
	for _, program := range []string{"ip", "iptables", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v; `make deps` installs it", err)
		}
	}
	name := fmt.Sprintf("nhfault-%d-%d", os.Getpid(), cables.Add(1))
	c := &cable{t: t, controller: name + "-c", agent: name + "-a"}
	for _, ns := range []string{c.controller, c.agent} {
		c.run("ip", "netns", "add", ns)
		t.Cleanup(func() { c.run("ip", "netns", "del", ns) })
		c.run("ip", "-n", ns, "link", "set", "lo", "up")
	}
	c.run("ip", "-n", c.agent, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", c.controller)
	for ns, address := range map[string]string{c.controller: controllerEnd, c.agent: agentEnd} {
		c.run("ip", "-n", ns, "addr", "add", address+"/24", "dev", "wire")
		c.run("ip", "-n", ns, "link", "set", "wire", "up")
	}
	// Counts what the agent begins.
	c.at("iptables", "-A", "OUTPUT", "-o", "wire", "-p", "tcp", "--syn")
	return c
}

func (c *cable) run(argv ...string) []byte {
	c.t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput() //nolint:noctx // also used when the test's context is over
	if err != nil {
		c.t.Fatalf("%v: %v: %s", argv, err, out)
	}
	return out
}

// in is how to run a program in a namespace.
func in(namespace string, argv ...string) []string {
	return append([]string{"nsenter", "--net=/run/netns/" + namespace, "--"}, argv...)
}

// at runs a program at the agent's end.
func (c *cable) at(argv ...string) []byte {
	c.t.Helper()
	return c.run(in(c.agent, argv...)...)
}

// workers is a controller at one end; agents of it are started with c.join.
func (c *cable) workers(pollSeconds string, settings ...string) *workerVNF {
	c.t.Helper()
	all := map[string]string{
		"listen": "0.0.0.0:" + port, "names": "[" + controllerEnd + "]",
		"pollSeconds": pollSeconds, "convergeSeconds": "10",
	}
	for i := 0; i < len(settings); i += 2 {
		all[settings[i]] = settings[i+1]
	}
	return newWorkerVNF(c.t, 1, loopback.Options{Address: controllerEnd + ":" + port, Wrap: in(c.controller), Settings: all})
}

// join starts the agent at the other end.
func (c *cable) join(w *workerVNF) *loopback.Agent {
	return w.agent(0, in(c.agent)...)
}

// Damages of a cable: rules at the agent's end.
var (
	towardsController = []string{"OUTPUT", "-o", "wire"}
	towardsAgent      = []string{"INPUT", "-i", "wire"}
)

// lose lets packets of one direction be lost, all of them or a part.
func (c *cable) lose(direction []string, part float64) {
	c.t.Helper()
	rule := append([]string{"iptables", "-A"}, direction...)
	if part < 1 {
		rule = append(rule, "-m", "statistic", "--mode", "random", "--probability", fmt.Sprint(part))
	}
	c.at(append(rule, "-j", "DROP")...)
}

// repair removes all rules, and keeps the count.
func (c *cable) repair() {
	c.t.Helper()
	c.at("iptables", "-F", "INPUT")
	for bytes.Contains(c.at("iptables", "-S", "OUTPUT"), []byte("DROP")) {
		c.at("iptables", "-D", "OUTPUT", "2")
	}
}

// begun is how many packets that begin a connection the agent has sent.
func (c *cable) begun() int {
	c.t.Helper()
	for line := range strings.Lines(string(c.at("iptables", "-nvxL", "OUTPUT", "1"))) {
		if fields := strings.Fields(line); len(fields) > 0 {
			n, err := strconv.Atoi(fields[0])
			if err != nil {
				c.t.Fatalf("counting: %q", line)
			}
			return n
		}
	}
	c.t.Fatal("counting: no line")
	return 0
}
