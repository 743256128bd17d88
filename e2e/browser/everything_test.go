package browser

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/e2e/crowd"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// TestANodeThatSaysEverything has one node of a fleet say all that a node may say, as fast as the
// controller takes it: 60 reports at once, then two a second. Meanwhile the whole fleet is read.
func TestANodeThatSaysEverything(t *testing.T) {
	for _, size := range []struct {
		agents, reports int
		long            bool
	}{{50, 150, false}, {2000, 60 + 2*15*60, true}} {
		t.Run(fmt.Sprint(size.agents), func(t *testing.T) {
			c := results.Begin(t, "browser", fmt.Sprintf("%d agents and a node that says everything", size.agents),
				"lists, YAML, terminal, status page and events of the fleet are whole; what it says pushes out no event of operators")
			if size.long {
				results.LongOnly(t)
			}
			everything(t, c, size.agents, size.reports)
		})
	}
}

func everything(t *testing.T, c *results.Case, agents, reports int) {
	w := newController(t)
	w.agents(agents)
	began := time.Now().UnixMicro()
	m := w.talker()
	b := open(t, w.Controller)
	b.signIn(w.Token("alice", api.ScopeViewer).Secret, "/ui/")
	told := w.watchEvents(reports)
	before := w.Usage()

	over := make(chan error, 1)
	go func() { over <- say(t.Context(), m, reports) }()
	looks := 0
	for talks := true; talks; looks++ {
		select {
		case err := <-over:
			w.must(err)
			talks = false // and a last look
		default:
		}
		w.lists(agents+2, m.ServerID)
		b.pages(m.ServerID)
	}
	select {
	case err := <-told:
		w.must(err)
	case <-time.After(time.Minute):
		t.Fatal("a minute after the last report its events are not told")
	}

	if _, err := w.Hitchctl("events", "--instance", id(2, 0), "--since", fmt.Sprint(began)); err == nil || !strings.Contains(err.Error(), "no longer kept") {
		t.Errorf("the events of before are all kept, so this run shows nothing: %v", err)
	}
	for kind, expected := range map[string]int{"Enrolled": 2, "Revoked": 1, "DesiredStateChanged": 1} {
		out, err := w.Hitchctl("events", "--instance", id(2, 0), "--type", kind, "-o", "json")
		w.must(err)
		if n := len(items(t, json.Unmarshal, out)); n != expected {
			t.Errorf("%d events %s of the instance are listed, expected %d", n, kind, expected)
		}
	}
	after := w.Usage()
	c.Figure("reports", "%d", reports)
	c.Figure("looks", "%d", looks)
	c.Figure("memory of the controller", "%d MiB, then %d, at most %d", before.Resident>>20, after.Resident>>20, after.Peak>>20)
}

// agents makes so many workers, each with the product's agent, and waits until all are connected.
func (w *controller) agents(n int) {
	w.t.Helper()
	var members []crowd.Member
	for from := 0; from < n; from += perInstance {
		instance := id(0, len(w.instances))
		w.instances = append(w.instances, instance)
		w.PutParams(instance, loopback.ClusterParams(""), loopback.Workers(id, from, min(perInstance, n-from)))
		token := w.JoinToken(instance)
		for i := from; i < min(n, from+perInstance); i++ {
			members = append(members, crowd.Member{ID: id(1, i), Token: token})
		}
	}
	agents := crowd.Start(w.t, crowd.Order{Config: w.AgentConfig(w.instances[0]), Dir: w.t.TempDir(), Members: members, Network: netip.MustParsePrefix("127.1.0.0/16")})
	for connected := 0; connected < n; {
		before := connected
		loopback.Until(w.t, "more agents are connected", func() bool {
			tally, err := agents.Tally()
			w.must(err)
			connected = tally.Connected
			return connected > before
		})
	}
}

// talker makes an instance with a storage server that will talk, and a worker that is revoked. The
// name of a server is a text from outside, too.
func (w *controller) talker() *loopback.Machine {
	w.t.Helper()
	m := w.Machine(id(3, 0))
	topology := loopback.StorageTopology(m.ServerID, id(4, 0), 1<<30)
	topology.Servers[0].Name = hostileName
	topology.Servers = append(topology.Servers, api.Server{ID: id(3, 1), Name: "revoked", ConnectionPoints: []api.ConnectionPoint{{Name: "worker_CP", Addresses: []string{"10.10.0.6"}}}})
	w.Put(id(2, 0), topology)
	token := w.JoinToken(id(2, 0))
	for _, each := range []*loopback.Machine{m, w.Machine(id(3, 1))} {
		w.must(each.Enroll(w.t.Context(), token))
	}
	w.must(client.Done(w.API.RevokeNode(w.t.Context(), id(3, 1))))
	return m
}

// lists reads every list with the node in it, as programs and in a terminal.
func (w *controller) lists(nodes int, talker string) {
	w.t.Helper()
	lines := func(out []byte) int { return bytes.Count(out, []byte("\n")) }
	for line, count := range map[string]func(out []byte) int{ // of nodes; nil if they are not counted
		"get nodes":         func(out []byte) int { return lines(out) - 1 },
		"get nodes -o wide": func(out []byte) int { return lines(out) - 1 },
		"get nodes -o name": lines,
		"get nodes -o json": func(out []byte) int { return len(items(w.t, json.Unmarshal, out)) },
		"get nodes -o yaml": func(out []byte) int {
			if in := items(w.t, w.yamlOfPython, out); len(in) != nodes {
				w.t.Errorf("Python reads %d nodes in the YAML", len(in))
			}
			return len(items(w.t, func(text []byte, v any) error { return yaml.Unmarshal(text, v) }, out))
		},
		"describe node " + talker:              nil,
		"describe instance " + id(2, 0):        nil,
		"events --node " + talker:              nil,
		"__complete get nodes --sort-by=.name": nil,
	} {
		out, err := w.Hitchctl(strings.Split(line, " ")...)
		w.must(err)
		w.must(harmless("hitchctl "+line, string(out)))
		if count == nil {
			continue
		}
		if n := count(out); n != nodes {
			w.t.Errorf("hitchctl %s has %d nodes, expected %d", line, n, nodes)
		}
	}
	for _, line := range []string{"get nodes", "describe node " + talker} {
		out, err := w.onTerminal(100, strings.Split(line, " ")...)
		w.must(err)
		w.must(harmless("a terminal, of hitchctl "+line+",", colours.ReplaceAllString(out, "")))
	}
}

// onTerminal is what a terminal is sent by hitchctl of root on the controller's machine.
func (w *controller) onTerminal(columns int, arguments ...string) (string, error) {
	line := fmt.Sprintf("stty cols %d rows 80; exec %s %s", columns, filepath.Join(loopback.Bin(w.t), "hitchctl"), strings.Join(arguments, " "))
	cmd := exec.CommandContext(w.t.Context(), "script", "--quiet", "--return", "--command", line, "/dev/null")
	cmd.Env = append(os.Environ(), "NODEHITCH_SERVER=unix://"+filepath.Join(w.Dir, "socket"), "HOME="+w.Dir, "TERM=xterm-256color", "LANG=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("hitchctl %v: %w: %s", arguments, err, out)
	}
	return string(out), err
}

// colours are what hitchctl sends a terminal besides text.
var colours = regexp.MustCompile("\x1b\\[(0|1|2|32|33|31;1)m|\r\n")

// items are those of a list. No text in them does anything.
func items(t testing.TB, decode func([]byte, any) error, out []byte) []any {
	t.Helper()
	var list struct{ Items []any }
	err := decode(out, &list)
	if err == nil {
		err = harmless("a list", decoded(list.Items))
	}
	if err != nil {
		t.Fatalf("%v: %.300q", err, out)
	}
	return list.Items
}

// yamlOfPython reads YAML as most programs of operators do.
func (w *controller) yamlOfPython(text []byte, v any) error {
	cmd := exec.CommandContext(w.t.Context(), "python3", "-c", "import sys, yaml, json; json.dump(yaml.load(sys.stdin.buffer, yaml.CSafeLoader), sys.stdout, default=str)")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	return json.Unmarshal(out, v)
}

// pages visits the pages that have texts of the node.
func (b *tab) pages(talker string) {
	b.t.Helper()
	for _, path := range []string{"/ui/", "/ui/nodes?text=script", "/ui/nodes/" + talker, "/ui/instances/" + id(2, 0), "/ui/volumes", "/ui/history"} {
		b.visit(path)
		text := value[string](b, "document.title + document.body.innerText")
		if err := harmless(path, text); err != nil || !strings.Contains(text, "<script>") || value[bool](b, "!!window.said") {
			b.t.Fatalf("%s does not show what the node said, or runs it: %v %.500q", path, err, text)
		}
	}
}

// watchEvents watches the events of the node's instance, until those of so many reports were told:
// each is whole, and comes once.
func (w *controller) watchEvents(reports int) <-chan error {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), filepath.Join(loopback.Bin(w.t), "hitchctl"), "events", "--instance", id(2, 0), "--watch", "-o", "json")
	cmd.Env = append(os.Environ(), "NODEHITCH_SERVER=unix://"+filepath.Join(w.Dir, "socket"), "HOME="+w.Dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	w.must(err)
	w.must(cmd.Start())
	w.t.Cleanup(func() { _ = cmd.Wait() }) // it is killed
	over := make(chan error, 1)
	go func() {
		of, sequence := make([]int, reports), int64(0)
		for events := json.NewDecoder(out); of[reports-1] < perReport; {
			var text json.RawMessage
			var e api.Event
			err := events.Decode(&text)
			if err == nil {
				err = errors.Join(json.Unmarshal(text, &e), harmless("hitchctl events", string(text)))
			}
			if err = errors.Join(err, harmless("an event", decoded(e))); err == nil && (e.Sequence <= sequence || e.By == "") {
				err = fmt.Errorf("after %d an event is %s", sequence, text)
			}
			if err != nil {
				over <- err
				return
			}
			sequence = e.Sequence
			var report int
			if _, err := fmt.Sscanf(e.Condition, "Said%dx", &report); err == nil && e.To != "" {
				of[report]++
			}
		}
		for report, n := range of {
			if n != perReport {
				err = errors.Join(err, fmt.Errorf("of report %d are %d conditions told, expected %d", report, n, perReport))
			}
		}
		over <- err
	}()
	return over
}
