package peers

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
)

// overheadLimit is how many seconds may pass from the start of the bootstrap's unit,
// which is when user_data has done its part, to the first action on the machine.
const overheadLimit = 0.5

// boots is how many machines are looked at, one after the other.
const boots = 5

// milestone is a moment in a machine's first boot.
type milestone struct {
	name string
	// unit and property say when systemd has noted it; or unit and message say what the
	// unit logs then, the first time.
	unit, property, message string
}

var milestones = []milestone{
	{name: "cloud-init begins", unit: "cloud-init-local.service", property: "InactiveExitTimestampMonotonic"},
	{name: "cloud-init has written the files of user_data", unit: "cloud-init.service", property: "ActiveEnterTimestampMonotonic"},
	{name: "cloud-init runs the commands of user_data", unit: "cloud-final.service", property: "InactiveExitTimestampMonotonic"},
	{name: bootstrapStarts, unit: "nodehitch-bootstrap.service", property: "InactiveExitTimestampMonotonic"},
	{name: "agent received", unit: "nodehitch-bootstrap.service", message: "agent received"},
	{name: "agent starts", unit: "nodehitch-agent.service", property: "ExecMainStartTimestampMonotonic"},
	{name: "agent runs", unit: "nodehitch-agent.service", message: "msg=starting"},
	{name: "enrolled", unit: "nodehitch-agent.service", message: "msg=enrolled"},
	{name: "document", unit: "nodehitch-agent.service", message: `msg="the controller answers"`},
	{name: firstAction, unit: "nodehitch-agent.service", message: `msg="action started"`},
	{name: "last action done", unit: "nodehitch-agent.service", message: `msg="action finished"`},
}

const (
	bootstrapStarts = "bootstrap starts"
	firstAction     = "first action"
)

// The timeline of a node: seconds since systemd has begun, the median of several workers.
func TestTimeline(t *testing.T) {
	r := results.Begin(t, suite, "timeline", "where the time of a worker's first boot goes, until it is what it should be")
	Require(t)
	s := sitetest.Open(t, bin, lab.KindNspawn)
	st, _ := instance(t, s.Lab)
	st.Others = nil
	address := workerAddress
	for range boots {
		address = address.Next()
		st.Others = append(st.Others, server(address))
	}
	userData, err := s.Announce(t.Context(), &st, workerAddress, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var lines []map[string]float64
	for i, worker := range st.Others {
		n, err := s.Lab.Nspawn(t.Context(), lab.Spec{
			Name: fmt.Sprintf("worker-%d", i), ServerID: worker.ID, Address: netip.MustParseAddr(worker.ConnectionPoints[0].Addresses[0]), UserData: userData,
		})
		if err != nil {
			t.Fatal(err)
		}
		m := &machine{n, t, "worker"}
		m.converged(s)
		lines = append(lines, m.timeline())
		if err := n.Destroy(); err != nil {
			t.Fatal(err)
		}
	}
	for _, stone := range milestones {
		r.Figure(stone.name, "%.2f s", median(lines, func(line map[string]float64) float64 { return line[stone.name] }))
	}
	overhead := median(lines, func(line map[string]float64) float64 { return line[firstAction] - line[bootstrapStarts] })
	r.Figure("of nodehitch before the first action", "%.2f s (median of %d)", overhead, boots)
	if overhead > overheadLimit {
		t.Errorf("%.2f s of nodehitch's own pass before the first action; at most %.2f", overhead, overheadLimit)
	}
}

// timeline reads the milestones, in seconds since the machine's systemd has begun.
func (m *machine) timeline() map[string]float64 {
	m.t.Helper()
	began := m.monotonic("show", "--value", "--property=UserspaceTimestampMonotonic")
	logged := m.log()
	line := map[string]float64{}
	for _, stone := range milestones {
		at := int64(0)
		if stone.property != "" {
			at = m.monotonic("show", "--value", "--property="+stone.property, stone.unit)
		} else if i := slices.IndexFunc(logged, func(e logEntry) bool { return e.Unit == stone.unit && strings.Contains(e.Message, stone.message) }); i >= 0 {
			at = logged[i].at(m.t)
		}
		if at < began {
			m.t.Fatalf("there was no %q: %+v", stone.name, logged)
		}
		line[stone.name] = float64(at-began) / 1e6
	}
	return line
}

func (m *machine) monotonic(args ...string) int64 {
	m.t.Helper()
	at, err := strconv.ParseInt(m.do(append([]string{"systemctl"}, args...)...), 10, 64)
	if err != nil {
		m.t.Fatal(err)
	}
	return at
}

// logEntry is an entry of the journal, in its own names.
type logEntry struct {
	Unit    string `json:"_SYSTEMD_UNIT"`
	Message string `json:"MESSAGE"`
	Time    string `json:"__MONOTONIC_TIMESTAMP"`
}

func (e logEntry) at(t *testing.T) int64 {
	t.Helper()
	at, err := strconv.ParseInt(e.Time, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// log is what nodehitch's units have logged.
func (m *machine) log() (entries []logEntry) {
	m.t.Helper()
	out := m.do("journalctl", "--output=json", "--output-fields=MESSAGE,_SYSTEMD_UNIT", "_SYSTEMD_UNIT=nodehitch-bootstrap.service", "_SYSTEMD_UNIT=nodehitch-agent.service")
	for line := range strings.Lines(out) {
		var e logEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			m.t.Fatalf("%v: %s", err, line)
		}
		entries = append(entries, e)
	}
	return entries
}
