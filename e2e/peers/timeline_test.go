package peers

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
)

// overheadLimit is how many seconds may pass from the moment in which cloud-init runs
// the command of user_data to the first action on the machine.
const overheadLimit = 0.5

// boots is how many machines are measured, one after the other.
const boots = 5

// milestone is a moment in a machine's first boot.
type milestone struct {
	name string
	// unit and property say when systemd has noted it; or unit and message say what is
	// logged for the unit then, the first time.
	unit, property, message string
}

const (
	bootstrapUnit = "nodehitch-bootstrap.service"
	agentUnit     = "nodehitch-agent.service"

	command     = "cloud-init runs the command of user_data" // its log has it
	firstAction = "first action"
)

var milestones = []milestone{
	{name: "cloud-init begins", unit: "cloud-init-local.service", property: "InactiveExitTimestampMonotonic"},
	{name: "the files of user_data are written", unit: "cloud-init.service", property: "ActiveEnterTimestampMonotonic"},
	{name: "cloud-init's last stage begins", unit: "cloud-final.service", property: "InactiveExitTimestampMonotonic"},
	{name: command},
	// systemd forgets the unit when it has done its work.
	{name: "bootstrap starts", unit: bootstrapUnit, message: "Starting " + bootstrapUnit},
	{name: "agent received", unit: bootstrapUnit, message: "agent received"},
	{name: "agent starts", unit: agentUnit, property: "ExecMainStartTimestampMonotonic"},
	{name: "agent runs", unit: agentUnit, message: "event=agent.started"},
	{name: "enrolled", unit: agentUnit, message: "event=node.enrolled"},
	{name: "document", unit: agentUnit, message: `msg="the controller answers"`},
	{name: firstAction, unit: agentUnit, message: "event=action.started"},
	{name: "last action done", unit: agentUnit, message: "event=action.finished"},
}

// The timeline of a node: seconds since systemd has begun, the median of several workers.
func TestTimeline(t *testing.T) {
	r := results.Begin(t, suite, "timeline", "the phases of a worker's first boot, until it is converged")
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
	for _, mark := range milestones {
		r.Figure(mark.name, "%.2f s", median(lines, func(line map[string]float64) float64 { return line[mark.name] }))
	}
	overhead := median(lines, func(line map[string]float64) float64 { return line[firstAction] - line[command] })
	r.Figure("nodehitch alone before the first action", "%.2f s (median of %d)", overhead, boots)
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
	for _, mark := range milestones {
		at := int64(0)
		switch {
		case mark.name == command:
			at = m.commanded()
		case mark.property != "":
			at = m.monotonic("show", "--value", "--property="+mark.property, mark.unit)
		default:
			if i := slices.IndexFunc(logged, mark.is); i >= 0 {
				at = logged[i].at(m.t)
			}
		}
		if at < began {
			m.t.Fatalf("there was no %q: %+v", mark.name, logged)
		}
		line[mark.name] = float64(at-began) / 1e6
	}
	return line
}

func (s milestone) is(e logEntry) bool {
	return (e.Unit == s.unit || e.About == s.unit) && strings.Contains(e.Message, s.message)
}

// commanded is when cloud-init has run the command of user_data, by its own log.
func (m *machine) commanded() int64 {
	m.t.Helper()
	const format = "2006-01-02 15:04:05,000"
	line := m.do("grep", "--fixed-strings", "--max-count=1", "Running command ['/var/lib/cloud/instance/scripts/runcmd']", "/var/log/cloud-init.log")
	at, err := time.Parse(format, line[:min(len(line), len(format))])
	if err != nil {
		m.t.Fatal(err)
	}
	// A container has the host's clocks.
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		m.t.Fatal(err)
	}
	return time.Duration(now.Nano()).Microseconds() - time.Since(at).Microseconds()
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
	About   string `json:"UNIT"` // what systemd speaks of
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

// log is what nodehitch's units have logged, and systemd of them.
func (m *machine) log() (entries []logEntry) {
	m.t.Helper()
	out := m.do("journalctl", "--output=json", "--output-fields=MESSAGE,_SYSTEMD_UNIT,UNIT", "--unit="+bootstrapUnit, "--unit="+agentUnit)
	for line := range strings.Lines(out) {
		var e logEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			m.t.Fatalf("%v: %s", err, line)
		}
		entries = append(entries, e)
	}
	return entries
}
