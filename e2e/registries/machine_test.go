package registries

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/shared/api"
)

// machine is a server of an instance that has been booted.
type machine struct {
	lab.Node
	w *world
}

// spec is a server with the instance's user_data and nothing else. Its first
// address is one of the lab's own.
func (v *vnf) spec(s api.Server, engine lab.Engine, also ...netip.Prefix) lab.Spec {
	v.t.Helper()
	return lab.Spec{Name: s.Name, ServerID: s.ID, UserData: v.userData(), Engine: engine, Also: also}
}

// boot boots machines side by side.
func (w *world) boot(specs ...lab.Spec) []*machine {
	w.t.Helper()
	machines, errs := make([]*machine, len(specs)), make([]error, len(specs))
	var all sync.WaitGroup
	for i, spec := range specs {
		all.Go(func() {
			node, err := w.lab.Nspawn(w.t.Context(), spec)
			machines[i], errs[i] = &machine{node, w}, err
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		w.t.Fatal(err)
	}
	for _, m := range machines {
		w.t.Cleanup(m.explain)
	}
	return machines
}

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

// write writes a file of the owner's.
func (m *machine) write(path, content string) {
	m.w.t.Helper()
	if err := m.Push(m.w.t.Context(), path, 0o644, []byte(content)); err != nil {
		m.w.t.Fatal(err)
	}
}

// read reads a file; one that is not there is empty.
func (m *machine) read(path string) string {
	content, err := m.Pull(m.w.t.Context(), path)
	if err != nil {
		return ""
	}
	return string(content)
}

// status is what the agent says on the machine.
func (m *machine) status() (*status.Status, error) {
	out, err := m.try("nodehitch-agent", "status", "-o", "json")
	if err != nil {
		return nil, err
	}
	var s status.Status
	return &s, json.Unmarshal([]byte(out), &s)
}

// is waits until the controller has a condition of the machine with this reason,
// for the document that is in force now, and returns its message.
func (m *machine) is(condition string, reason api.Reason) (message string) {
	m.w.t.Helper()
	m.w.until(fmt.Sprintf("%s: %s is %s", m.Name(), condition, reason), func() error {
		n, err := m.node()
		if err != nil {
			return err
		}
		c := n.Status.Condition(condition)
		if c == nil || c.Reason != reason || n.Status.ObservedDigest != n.Digest || c.ObservedGeneration != n.Generation {
			return fmt.Errorf("generation %d, withheld %v, status %+v", n.Generation, n.Withheld, n.Status)
		}
		message = c.Message
		return nil
	})
	return message
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

// node is the machine as the controller sees it.
func (m *machine) node() (*api.Node, error) {
	var n api.Node
	err := m.w.JSON(m.w.t.Context(), &n, "get", "node", m.ServerID())
	return &n, err
}

// explain shows what the machine has to say when the test has failed.
func (m *machine) explain() {
	if !m.w.t.Failed() {
		return
	}
	ctx := context.WithoutCancel(m.w.t.Context())
	for _, command := range [][]string{
		{"nodehitch-agent", "status"},
		{"journalctl", "-u", "nodehitch*", "--no-pager", "-n", "60", "-o", "cat"},
		{"journalctl", "-u", "docker", "-u", "containerd", "--no-pager", "-n", "20", "-o", "cat"},
	} {
		out, err := m.Exec(ctx, command...)
		m.w.t.Logf("%s: %v: %v\n%s", m.Name(), command, err, out)
	}
}
