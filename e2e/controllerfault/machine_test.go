package controllerfault

import (
	"fmt"
	"net/http"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// machine is a node as the controller knows it: what its agent sends, in the order
// of the test.
type machine struct {
	*loopback.Machine
	r *rig
	// permit is that of the format under way.
	permit string
}

func (r *rig) machine(server string) *machine {
	r.t.Helper()
	return &machine{Machine: r.c.Machine(server), r: r}
}

func (m *machine) enroll(joinToken string) error { return m.Enroll(m.r.t.Context(), joinToken) }

func (m *machine) renew() error { return m.Renew(m.r.t.Context()) }

func (m *machine) config() (*api.NodeConfig, error) { return m.Config(m.r.t.Context()) }

// isAccepted: its certificate is accepted.
func (m *machine) isAccepted() error {
	_, err := m.config()
	return err
}

// frozen is a copy of the machine as it is now, like an old copy of its disk.
func (m *machine) frozen() *machine {
	disk := *m.Machine
	return &machine{Machine: &disk, r: m.r}
}

// isRefused: its certificate is refused.
func (m *machine) isRefused() error {
	_, err := m.config()
	return isRefusal(err)
}

// isRefusal returns an error if the answer is not a refusal.
func isRefusal(err error) error {
	switch status := client.Status(err); {
	case err == nil:
		return errNotRefused
	case status == http.StatusForbidden, status == http.StatusUnauthorized:
		return nil
	}
	return unexpected(err)
}

// unexpected is an answer, nil for a good one, that should have been another.
func unexpected(answer error) error { return fmt.Errorf("it was answered with %s", fmt.Sprint(answer)) }

// report says that the machine is what its present document asks for, and returns
// what it said.
func (m *machine) report() (api.NodeStatus, error) { return m.Converge(m.r.t.Context()) }

// format is one message about the volume, in the words of its present document.
func (m *machine) format(phase api.FormatPhase, check *api.BlankCheck) error {
	config, err := m.config()
	if err != nil {
		return err
	}
	if config.Storage == nil || len(config.Storage.Volumes) != 1 {
		return fmt.Errorf("the document names no volume: %+v", config)
	}
	v := config.Storage.Volumes[0]
	r := api.FormatReport{Phase: phase, SizeBytes: v.SizeBytes, FilesystemUUID: v.FilesystemUUID, BlankCheck: check}
	if phase != api.FormatWanted {
		r.Permit = m.permit
	}
	answer, err := m.Format(m.r.t.Context(), v.VolumeID, r)
	if err == nil {
		m.permit = answer.Permit
	}
	return err
}
