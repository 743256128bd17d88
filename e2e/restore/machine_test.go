package restore

import (
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
)

// machine is a VM with the join token of its user_data.
type machine struct {
	*loopback.Machine
	w     *controller
	token string
}

// boot is a machine that has only user_data.
func (w *controller) boot(id string) *machine {
	w.t.Helper()
	return &machine{w: w, Machine: w.Machine(id), token: w.JoinToken(instance)}
}

// enrolled is a machine with an identity.
func (w *controller) enrolled(id string) *machine {
	w.t.Helper()
	m := w.boot(id)
	w.must(m.enroll())
	return m
}

func (m *machine) enroll() error { return m.Enroll(m.w.t.Context(), m.token) }

func (m *machine) renew() error { return m.Renew(m.w.t.Context()) }

// later waits for the next second, because the times of certificates have whole seconds.
func later(t testing.TB) {
	t.Helper()
	now := time.Now().Unix()
	loopback.Until(t, "the next second", func() bool { return time.Now().Unix() > now })
}

// copy is another machine with the same key and certificate.
func (m *machine) copy() *machine {
	thief := *m.Machine
	return &machine{&thief, m.w, m.token}
}

func (m *machine) config() (*api.NodeConfig, error) { return m.Config(m.w.t.Context()) }

// asks says whether the machine is accepted.
func (m *machine) asks() error {
	_, err := m.config()
	return err
}

// converged reports that the machine is what its document wants.
func (m *machine) converged() error {
	_, err := m.Converge(m.w.t.Context())
	return err
}

func (m *machine) report(s api.NodeStatus) error { return m.Report(m.w.t.Context(), s) }

// format is one message about the volume; wanted has the blank check.
func (m *machine) format(phase api.FormatPhase, permit string) (*api.FormatPermit, error) {
	return m.formatOf(volume, phase, permit)
}

func (m *machine) formatOf(volume string, phase api.FormatPhase, permit string) (*api.FormatPermit, error) {
	r := api.FormatReport{Phase: phase, Permit: permit, SizeBytes: size, FilesystemUUID: api.FilesystemUUID(volume)}
	if phase == api.FormatWanted {
		r.BlankCheck = &api.BlankCheck{BytesRead: size, Samples: 1024}
	}
	return m.Format(m.w.t.Context(), volume, r)
}
