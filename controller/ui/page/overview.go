package page

import (
	"cmp"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/shared/api"
)

// fewEvents is how many events a page that is about something else shows.
const fewEvents = 15

// fewDecisions is how many decisions are not folded in.
const fewDecisions = 6

type overviewPage struct {
	// MoreDecisions are those beyond the first few, folded in.
	Decisions, MoreDecisions []decision
	// First are the commands to begin with, if there is no instance and no node.
	First  []command
	Fleet  fleet
	AtWork []operationInProgress
	// Earlier is whether there are operations that are over.
	Earlier  bool
	Rollout  rolloutShown
	Agents   []agentCount
	Replicas []replicaShown
	Events   []eventRow
}

func (o Overview) content(f Frame) content {
	decisions := o.decisions()
	first := min(fewDecisions, len(decisions))
	var begin []command
	if len(o.Instances) == 0 && len(o.Nodes) == 0 {
		begin = firstCommands()
	}
	return content{name: "overview", title: "Overview", changed: []string{ChangedInstances, ChangedNodes, ChangedOperations, ChangedVolumes, ChangedEvents, ChangedReplicas},
		data: overviewPage{Decisions: decisions[:first], MoreDecisions: decisions[first:], First: begin, Fleet: o.fleet(), AtWork: atWork(f, o.Operations, o.Nodes), Earlier: len(o.Operations) > 0,
			Rollout: shownRollout(f, o.Rollout), Agents: agents(o.Rollout), Replicas: shownReplicas(f, o.Replicas), Events: f.newest(o.Events, fewEvents)}}
}

// count is how many nodes are in a state, and where they are listed.
type count struct {
	Badge  badge
	Number int
	Path   string
	// Percent is the share of all.
	From, Percent string
}

// fleet is all nodes in numbers, and each of them as a square.
type fleet struct {
	Total, Instances int
	// Calling is how many have called within three poll intervals.
	Calling int
	Counts  []count
	// Healthy is how many are Ready.
	Healthy int
	Rows    []fleetRow
}

// fleetRow is the nodes of an instance, a square for each.
type fleetRow struct {
	Instance name
	Squares  []square
	Summary  string
	// Healthy is whether all are Ready.
	Healthy bool
}

// square is a node on the map, with its state as a class and in words.
type square struct {
	Class, State string
	Node         name
}

// mostSquares is how many nodes are drawn at most.
const mostSquares = 4000

// notReady is the place of those that are not Ready among the states. They wait while none fails.
const notReady = 1

// The states that nodes are counted by: Ready and not are those of enrolled ones.
var counted = []struct {
	badge
	query string
	of    func(api.Node) bool
}{
	{badge{"good", "Ready"}, "state=Enrolled&ready=True", func(n api.Node) bool { return n.State == api.NodeEnrolled && n.Ready }},
	{badge{"bad", "Not ready"}, "state=Enrolled&ready=False", func(n api.Node) bool { return n.State == api.NodeEnrolled && !n.Ready }},
	{badge{"bad", "Lost"}, "state=Lost", func(n api.Node) bool { return n.State == api.NodeLost }},
	{badge{"wait", "Expected"}, "state=Expected", func(n api.Node) bool { return n.State == api.NodeExpected }},
	{badge{"plain", "Revoked"}, "state=Revoked", func(n api.Node) bool { return n.State == api.NodeRevoked }},
}

func (o Overview) fleet() fleet {
	fl := fleet{Total: len(o.Nodes), Instances: len(o.Instances)}
	numbers, failing := make([]int, len(counted)), false
	rows := map[string]*fleetRow{}
	var order []string
	for _, n := range o.Nodes {
		if inContact(n) {
			fl.Calling++
		}
		at := slices.IndexFunc(counted, func(c struct {
			badge
			query string
			of    func(api.Node) bool
		}) bool {
			return c.of(n)
		})
		if at < 0 {
			continue
		}
		numbers[at]++
		s := square{Class: squareClass[at], State: counted[at].Text, Node: nodeName(n.Name, n.ID)}
		if at == notReady {
			if describe.OfReady(n) == describe.Bad {
				failing = true
			} else {
				s.Class, s.State = waitingClass, "Not ready yet"
			}
		}
		if len(o.Nodes) > mostSquares {
			continue
		}
		row := rows[n.VnfInstanceID]
		if row == nil {
			row = &fleetRow{Instance: instanceName(n.VnfInstanceName, n.VnfInstanceID)}
			rows[n.VnfInstanceID] = row
			order = append(order, n.VnfInstanceID)
		}
		row.Squares = append(row.Squares, s)
	}
	from := 0.0
	for i, c := range counted {
		share := 100 * float64(numbers[i]) / float64(max(1, len(o.Nodes)))
		if i == notReady && !failing {
			c.Mark = "wait"
		}
		if numbers[i] > 0 || i < 4 {
			fl.Counts = append(fl.Counts, count{Badge: c.badge, Number: numbers[i], Path: PathNodes + "?" + c.query, From: percent(from), Percent: percent(share)})
		}
		from += share
	}
	nodes := byInstance(o.Nodes)
	for _, id := range order {
		healthy := 0
		for _, s := range rows[id].Squares {
			if s.Class == squareClass[0] {
				healthy++
			}
		}
		fl.Healthy += healthy
		rows[id].Healthy = healthy == len(rows[id].Squares)
		ready, all := readyOf(nodes[id])
		rows[id].Summary = asReported(strconv.Itoa(ready)+" of "+strconv.Itoa(all)+" Ready", slices.ContainsFunc(nodes[id], func(n api.Node) bool { return n.Unconfirmed }))
		fl.Rows = append(fl.Rows, *rows[id])
	}
	return fl
}

// squareClass is how a node is drawn, in the order of the states. A node that is not Ready, but has
// failed at nothing, is drawn as waitingClass.
var squareClass = []string{"r", "n", "l", "e", "v"}

const waitingClass = "w"

// squares are links to nodes. A template would take half of a second for thousands of them.
func squares(list []square) template.HTML {
	var b strings.Builder
	for _, s := range list {
		for _, part := range []string{`<a class="`, s.Class, `" href="`, template.HTMLEscapeString(s.Node.Path), `" title="`, template.HTMLEscapeString(s.Node.Text), ": ", s.State, `"></a>`} {
			b.WriteString(part)
		}
	}
	return template.HTML(b.String())
}

// percent is a share for an attribute of SVG.
func percent(share float64) string { return strconv.FormatFloat(share, 'f', 3, 64) + "%" }

// operationInProgress is an operation in progress.
type operationInProgress struct {
	Name              string
	Object            name
	Started, Deadline stamp
	Progress          progressShown
	Waiting           []targetShown
	Rest              int
	Withheld          []withheldShown
	Path              string
}

// fewTargets is how many targets of an operation the overview shows.
const fewTargets = 4

func atWork(f Frame, operations []api.Operation, nodes []api.Node) (list []operationInProgress) {
	names, doing := namesOf(nodes), doingOf(nodes)
	for _, o := range operations {
		if o.State != api.Processing {
			continue
		}
		w := operationInProgress{Name: operationWork(o, operations), Object: operationName(o),
			Started: f.age(&o.StartedAt), Deadline: f.deadline(o.Deadline), Progress: reached(o), Path: operationPath(o),
			Withheld: f.withheld(o.Withheld, names)}
		var waiting []targetShown
		for _, t := range o.Targets {
			if !t.Ready {
				waiting = append(waiting, f.shownTarget(t, names, doing))
			}
		}
		w.Waiting, w.Rest = few(waiting, fewTargets)
		list = append(list, w)
	}
	return list
}

type rolloutShown struct {
	Badge    badge
	Fields   []field
	InFlight []agentInFlight
}

type agentInFlight struct {
	Node        name
	Version, To string
	Wave        int
	Since       stamp
	Text        string
}

func shownRollout(f Frame, r api.AgentRollout) rolloutShown {
	tone := describe.Plain
	switch r.State {
	case api.RolloutStopped:
		tone = describe.Bad
	case api.RolloutPaused, api.RolloutProgressing:
		tone = describe.Waiting
	case api.RolloutComplete:
		tone = describe.Good
	}
	shown := rolloutShown{Badge: toned(tone, string(r.State)), Fields: fields(
		field{Label: "Wanted version", Text: r.Version}, field{Label: "Mode", Text: string(r.Mode)}, field{Label: "Started", Time: f.both(r.StartedAt)},
		field{Label: "By", Text: r.StartedBy}, field{Label: "Message", Text: r.Message})}
	for _, a := range r.InFlight {
		shown.InFlight = append(shown.InFlight, agentInFlight{Node: nodeName(a.Name, a.NodeID), Version: cmp.Or(a.Version, describe.None), To: a.To,
			Wave: a.Wave, Since: f.last(a.Since), Text: describe.ReasonAndMessage(a.Reason, a.Message)})
	}
	return shown
}

// agentCount is how many nodes have a version of the agent in a state.
type agentCount struct {
	Version string
	Badge   badge
	Nodes   int
}

func agents(r api.AgentRollout) (list []agentCount) {
	for _, c := range r.Nodes {
		list = append(list, agentCount{Version: cmp.Or(c.Version, describe.None), Badge: toned(describe.OfAgent(c.State), string(c.State)), Nodes: c.Nodes})
	}
	return list
}
