package daemon_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/shared/api"
)

const otherServer = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e70"

// ran is a node that was Ready for generation 1 and has stopped. What it made is undone, so
// that the test sees whether it is made again.
func ran(t *testing.T) (*controller, *node) {
	t.Helper()
	c := newController(t)
	c.give(1, 1, "")
	n := newNode(t, c)
	stop := n.start()
	until(t, "Ready", n.ready(c, 1))
	until(t, "the last known good", func() bool { a, _ := n.state().Applied(); return a != nil })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	n.work.change(func() { n.work.has = 0 })
	return c, n
}

// write puts content in place of a state file; nil removes it, and "dir" puts a
// directory that is not empty there.
func (n *node) write(name string, content []byte) {
	n.t.Helper()
	path := n.state().Path(name)
	err := os.RemoveAll(path)
	switch {
	case content == nil:
	case string(content) == "dir":
		err = errors.Join(err, os.MkdirAll(path+"/something", 0o700))
	default:
		err = errors.Join(err, os.WriteFile(path, content, 0o600))
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) read(name string) []byte {
	n.t.Helper()
	content, err := n.state().Read(name)
	if err != nil {
		n.t.Fatal(err)
	}
	return content
}

// If one file is damaged, the node recovers its identity from the other. If its certificate
// is intact, it does not enroll again.
func TestDamagedFileMendsItself(t *testing.T) {
	for name, c := range map[string]struct {
		file    string
		content []byte
		enrolls bool
	}{
		"no record":                   {"machine.json", nil, false},
		"an empty record":             {"machine.json", []byte{}, false},
		"a record without an id":      {"machine.json", []byte("{}"), false},
		"half a record":               {"machine.json", []byte(`{"nodeId": "6f1c1d4e-8a5b`), false},
		"no last known good":          {"last-known-good.json", nil, false},
		"an empty last known good":    {"last-known-good.json", []byte{}, false},
		"a last known good of nulls":  {"last-known-good.json", make([]byte, 4096), false},
		"no identity":                 {"identity.pem", nil, true},
		"an empty identity":           {"identity.pem", []byte{}, true},
		"an identity of garbage":      {"identity.pem", []byte("x"), true},
		"a renewed one of garbage":    {"identity-next.pem", []byte("x"), false},
		"an empty renewed one":        {"identity-next.pem", []byte{}, false},
		"a key of garbage":            {"key-next.pem", []byte("x"), false},
		"a file that is not finished": {".identity.pem.17.new", []byte("x"), false},
	} {
		t.Run(name, func(t *testing.T) {
			ctl, n := ran(t)
			n.write(c.file, c.content)
			enrolled := ctl.count("POST /v1/enroll")
			ctl.set(func() { ctl.reports = nil })
			n.start()
			until(t, "Ready again", n.ready(ctl, 1))
			until(t, "the files are whole again", func() bool {
				m, err := n.state().Machine()
				a, err2 := n.state().Applied()
				return errors.Join(err, err2) == nil && m != nil && m.NodeID == server && a != nil
			})
			if got := ctl.count("POST /v1/enroll") - enrolled; got != 0 != c.enrolls {
				t.Errorf("%d enrollments", got)
			}
			// The status on disk follows a moment after what the controller is told.
			until(t, "its status is that of a whole node", func() bool {
				s := n.status()
				return s.Problem == "" && s.Controller.Damaged == "" && s.NodeID == server
			})
		})
	}
}

// The agent reports damage that it cannot repair, and everything else goes on.
func TestDirectoryInPlaceOfAFileIsNamed(t *testing.T) {
	for _, file := range []string{"identity.pem", "machine.json", "last-known-good.json"} {
		t.Run(file, func(t *testing.T) {
			c, n := ran(t)
			n.write(file, []byte("dir"))
			n.start()
			if file != "identity.pem" {
				until(t, "Ready again", n.ready(c, 1))
			}
			if file != "machine.json" {
				until(t, "it is named", func() bool {
					s := n.status()
					return strings.Contains(s.Controller.LastError+s.Unsaved, file)
				})
			}
			if n.work.is() != 1 && file == "identity.pem" {
				until(t, "converged from disk", func() bool { return n.work.is() == 1 })
			}
			n.write(file, nil) // by a person
			until(t, "Ready, without a restart", n.ready(c, 1))
		})
	}
}

// If the controller refuses an enrollment, the status says what the operator has to do. After
// that, the node comes back without a change on the machine.
func TestLostIdentityWaitsForTheOperator(t *testing.T) {
	c, n := ran(t)
	n.write("identity.pem", []byte("x"))
	c.set(func() {
		c.enroll = func() *api.Problem {
			return api.NewProblem(api.ProblemIdentityLive, "if it was rebuilt, `hitchctl node reenroll "+server+"` lets it enroll again")
		}
	})
	n.start()
	until(t, "converged from disk", func() bool { return n.work.is() == 1 })
	until(t, "it says what to do, and why", func() bool {
		s := n.status()
		return strings.Contains(s.Summary(), "hitchctl node reenroll "+server) && strings.Contains(s.Controller.Damaged, "identity.pem")
	})
}

// The agent uses no identity and no document of another server, whichever of the files still
// names that server.
func TestStateOfAnotherMachineIsNotUsed(t *testing.T) {
	for name, gone := range map[string][]string{
		"all of it":                      nil,
		"without the record":             {"machine.json"},
		"without the identity":           {"identity.pem"},
		"without the last known good":    {"last-known-good.json"},
		"the last known good alone":      {"machine.json", "identity.pem"},
		"the record and no identity nor": {"identity.pem", "last-known-good.json"},
	} {
		t.Run(name, func(t *testing.T) {
			c, n := ran(t)
			for _, file := range gone {
				n.write(file, nil)
			}
			n.is(otherServer)
			c.set(func() { c.enroll = func() *api.Problem { return api.NewProblem(api.ProblemServerNotExpected, "") } })
			before := c.count("GET /v1/node/config")
			n.start()
			until(t, "it stops short, or enrolls as the machine that it is", func() bool {
				s := n.status()
				return strings.Contains(s.Problem, "copy of an enrolled node") || s.NodeID == otherServer && s.Controller.LastError != ""
			})
			if n.work.is() != 0 || c.count("GET /v1/node/config") != before {
				t.Error("the other's identity or document was used")
			}
		})
	}
}

// The record and the certificate name two machines.
func TestIdentityOfAnotherMachineIsNotUsed(t *testing.T) {
	c, n := ran(t)
	if err := n.state().SaveMachine(state.Machine{NodeID: otherServer, Source: "cloud-init"}); err != nil {
		t.Fatal(err)
	}
	n.is(otherServer)
	before := c.count("")
	n.start()
	until(t, "it is refused", func() bool { return strings.Contains(n.status().Problem, "copy of an enrolled node") })
	if n.work.is() != 0 || c.count("") != before {
		t.Error("the other's identity was used")
	}
}

// With a full /run, or a directory in place of the lock, the agent does not converge the
// machine and reports that, and the connection to the controller stays.
func TestLockThatCannotBeTakenIsTriedAgain(t *testing.T) {
	c, n := ran(t)
	if err := errors.Join(os.RemoveAll(n.lockFile()), os.MkdirAll(n.lockFile()+"/x", 0o700)); err != nil {
		t.Fatal(err)
	}
	n.start()
	until(t, "it is named", func() bool {
		s := n.status()
		return strings.Contains(s.Problem, "agent.lock") && s.Controller.Connected
	})
	if n.work.is() != 0 {
		t.Error("converged without the lock")
	}
	if err := os.RemoveAll(n.lockFile()); err != nil {
		t.Fatal(err)
	}
	until(t, "Ready, without a restart", n.ready(c, 1))
	until(t, "and nothing is wrong", func() bool { return n.status().Problem == "" })
}
