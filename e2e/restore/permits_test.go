package restore

import (
	"fmt"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
)

// spent is how far a permit was used after the backup, or before it and then further.
type spent struct {
	name string
	// before the backup, and after it.
	before, after func(w *controller, m *machine) string
	// known is the volume's state after the restore if the replaced store was read.
	known api.PermitState
}

func nothing(*controller, *machine) string { return "" }

// wanted, started and formatted go so far and return the permit.
func wanted(w *controller, m *machine) string {
	w.t.Helper()
	p, err := m.format(api.FormatWanted, "")
	w.must(err)
	return p.Permit
}

func started(w *controller, m *machine) string {
	w.t.Helper()
	permit := wanted(w, m)
	_, err := m.format(api.FormatStarted, permit)
	w.must(err)
	return permit
}

func formatted(w *controller, m *machine) string {
	w.t.Helper()
	permit := started(w, m)
	_, err := m.format(api.FormatFormatted, permit)
	w.must(err)
	return permit
}

func reformat(w *controller, _ *machine) string {
	w.t.Helper()
	w.Must("volume", "reformat", volume, "--volume-id", volume)
	return ""
}

func TestASpentPermitStaysSpent(t *testing.T) {
	for _, c := range []spent{
		{"never asked for", nothing, nothing, api.PermitNone},
		{"granted since", nothing, wanted, api.PermitGranted},
		{"started since", nothing, started, api.PermitStarted},
		{"formatted since", nothing, formatted, api.PermitFormatted},
		{"granted before, formatted since", wanted, formatted, api.PermitFormatted},
		{"started before, formatted since", started, formatted, api.PermitFormatted},
		{"formatted before", formatted, nothing, api.PermitFormatted},
		{"a reformat before, used since", reformat, formatted, api.PermitFormatted},
		{"a reformat granted before, used since", func(w *controller, m *machine) string { reformat(w, m); return wanted(w, m) }, formatted, api.PermitFormatted},
	} {
		both(t, "spent permit: "+c.name, "no permit from before the restore is valid after it, and a volume of the backup gets a new one only by an operator's reformat", func(w *controller, lost bool) {
			c.try(w, lost)
		})
	}
}

func (c spent) try(w *controller, lost bool) {
	m := w.enrolled(storage)
	permits := []string{c.before(w, m)}
	file := w.backup()
	permits = append(permits, c.after(w, m))
	w.restored(file, lost)
	_, err := m.format(api.FormatWanted, "")
	w.refused("a permit before the confirmation", err, api.ProblemRestoreUnconfirmed)
	w.confirm()
	if state := w.volume().PermitState; !lost && state != c.known {
		w.t.Errorf("the permit is %s, want %s as the replaced store had it", state, c.known)
	}
	_, err = m.format(api.FormatWanted, "")
	w.refused("a permit", err, api.ProblemNoPermit)
	for _, permit := range permits {
		_, err = m.format(api.FormatStarted, permit)
		w.refused(fmt.Sprintf("a start with the permit %q", permit), err, api.ProblemNoPermit)
	}
	reformat(w, m)
	again, err := m.format(api.FormatWanted, "")
	w.allowed("a permit after the confirmation", err)
	if err == nil && !again.Overwrite {
		w.t.Errorf("after a reformat the permit is %+v, want one to overwrite", again)
	}
}

func TestAVolumeOfAnUnconfirmedTopologyGetsNoPermit(t *testing.T) {
	w := begin(t, "a volume that the backup does not know", "a new volume in the topology of an unconfirmed instance may have been formatted before: it gets no permit")
	m := w.enrolled(storage)
	file := w.backup()
	w.restored(file, true)
	const other = "9a3e6c1e-1f7e-4d0e-8c55-0d8c1c6e2b22"
	topology := loopback.StorageTopology(storage, volume, size, worker, spare)
	topology.Servers[0].VolumeIds = []string{other}
	topology.Volumes[0].ID = other
	w.Put(instance, topology)
	w.confirm()
	_, err := m.formatOf(other, api.FormatWanted, "")
	w.refused("a permit for a volume that was there before the confirmation", err, api.ProblemNoPermit)
	third := "9a3e6c1e-1f7e-4d0e-8c55-0d8c1c6e2b33"
	topology.Servers[0].VolumeIds, topology.Volumes[0].ID = []string{third}, third
	w.Put(instance, topology)
	_, err = m.formatOf(third, api.FormatWanted, "")
	w.allowed("a permit for a volume that came after it", err)
}
