package hosttest

import (
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/agent/machine/host"
)

type processes struct{ *Machine }

// now is by the machine's clock.
func (m *Machine) now() time.Time {
	if m.Clock == nil {
		return time.Now()
	}
	return m.Clock()
}

func (h processes) OfPods(programs ...string) ([]host.Process, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.Processes), func(p host.Process) bool { return !slices.Contains(programs, p.Program) }), nil
}

// End does what kubelet does after it, too: it starts a Pod again whose manifest is there.
func (h processes) End(p host.Process) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.Processes, p)
	if i < 0 {
		return nil
	}
	if err := h.change("end", p.Program); err != nil {
		return err
	}
	h.changes.Command()
	if _, there := h.Files["/etc/kubernetes/manifests/"+p.Program+".yaml"]; !there {
		h.Processes = slices.Delete(h.Processes, i, i+1)
		return nil
	}
	h.Processes[i] = host.Process{PID: p.PID + 1000, Program: p.Program, Started: h.now()}
	return nil
}
