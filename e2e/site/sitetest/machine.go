package sitetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/shared/api"
)

// LastKnownGood is the file with the document that an agent has applied.
const LastKnownGood = "/var/lib/nodehitch/agent/last-known-good.json"

// Machine is a server that has been booted.
type Machine struct {
	lab.Node
	W      *World
	Server api.Server
}

// Try runs a program and returns what it printed, without the white space around it; its
// error has what it said on standard error.
func (m *Machine) Try(argv ...string) (string, error) {
	out, err := m.Exec(m.W.T.Context(), argv...)
	return strings.TrimSpace(string(out)), err
}

// Run runs a program that has to succeed.
func (m *Machine) Run(argv ...string) string {
	m.W.T.Helper()
	out, err := m.Try(argv...)
	if err != nil {
		m.W.T.Fatalf("%v\n%s", err, out)
	}
	return out
}

// AsKnown is the machine as the controller sees it.
func (m *Machine) AsKnown() (*api.Node, error) {
	var n api.Node
	err := m.W.JSON(m.W.T.Context(), &n, "get", "node", m.ServerID())
	return &n, err
}

// Await reads the machine from the controller until nothing is wrong.
func (m *Machine) Await(what string, wrong func(*api.Node) error) {
	m.W.T.Helper()
	m.W.Until(m.Name()+": "+what, func() error {
		n, err := m.AsKnown()
		if err == nil {
			err = wrong(n)
		}
		return err
	})
}

// Says waits until the controller has a condition of the machine with this reason, for the
// document that is in force now, and returns its message.
func (m *Machine) Says(condition string, reason api.Reason) (message string) {
	m.W.T.Helper()
	m.Await(condition+" is "+reason, func(n *api.Node) error {
		c := n.Status.Condition(condition)
		if c == nil || c.Reason != reason || n.Status.ObservedDigest != n.Digest || c.ObservedGeneration != n.Generation {
			return fmt.Errorf("generation %d, withheld %v, status %+v", n.Generation, n.Withheld, n.Status)
		}
		message = c.Message
		return nil
	})
	return message
}

// Ready waits until the machine is Ready for the document in force.
func (m *Machine) Ready() {
	m.W.T.Helper()
	m.Await("it is Ready", func(n *api.Node) error {
		if !n.Ready || n.Status.AppliedDigest != n.Digest {
			return fmt.Errorf("generation %d, withheld %v, status %+v", n.Generation, n.Withheld, n.Status)
		}
		return nil
	})
}

// SecondPass asserts that another pass over a converged machine plans nothing and changes
// nothing.
func (m *Machine) SecondPass() {
	m.W.T.Helper()
	m.Ready()
	m.Run("systemctl", "stop", "nodehitch-agent")
	out, err := m.Try("nodehitch-agent", "apply", "--filename", LastKnownGood, "--output", "json")
	m.Run("systemctl", "start", "nodehitch-agent")
	if err != nil {
		m.W.T.Errorf("%s: a second pass: %v", m.Name(), err)
	}
	var pass struct {
		Converged bool
		Steps     []struct{ Planned []string }
		Changes   map[string]int64
	}
	if err := json.Unmarshal([]byte(out), &pass); err != nil {
		m.W.T.Fatalf("%s: %v: %s", m.Name(), err, out)
	}
	if !pass.Converged || len(pass.Steps) == 0 || len(pass.Changes) == 0 {
		m.W.T.Errorf("%s: a second pass: %s", m.Name(), out)
	}
	for _, step := range pass.Steps {
		if len(step.Planned) > 0 {
			m.W.T.Errorf("%s: a second pass plans %q", m.Name(), step.Planned)
		}
	}
	for what, n := range pass.Changes {
		if n != 0 {
			m.W.T.Errorf("%s: a second pass changes %d %s", m.Name(), n, what)
		}
	}
}

// Explain shows what a machine has to say if the test has failed; also are further
// programs that are asked.
func Explain(t *testing.T, m lab.Node, also ...[]string) {
	if !t.Failed() {
		return
	}
	ctx := context.WithoutCancel(t.Context())
	for _, look := range slices.Concat([][]string{
		{"nodehitch-agent", "status"},
		{"journalctl", "-u", "nodehitch*", "--no-pager", "-n", "60", "-o", "cat"},
	}, also) {
		out, err := m.Exec(ctx, look...)
		t.Logf("%s: %v: %v\n%s", m.Name(), look, err, out)
	}
}
