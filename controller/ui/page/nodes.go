package page

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/shared/api"
)

// nodeRow is a node in a list.
type nodeRow struct {
	Node, Instance name
	Role           string
	State, Ready   badge
	Seen           stamp
	Agent          string
	Why            string
	Healthy        bool
}

func (f Frame) nodeRow(n api.Node) nodeRow {
	row := nodeRow{Node: nodeName(n.Name, n.ID), Instance: instanceName(n.VnfInstanceName, n.VnfInstanceID), Role: string(n.Role),
		State: unconfirmed(toned(describe.OfNode(n.State), string(n.State)), n.Unconfirmed), Ready: readiness(n),
		Seen: f.minute(n.LastSeenAt), Agent: describe.None, Why: describe.Why(n), Healthy: n.Ready}
	if n.Status != nil {
		row.Agent = cmp.Or(n.Status.Facts.AgentVersion, describe.None)
	}
	return row
}

// readiness is whether a node is Ready.
func readiness(n api.Node) badge {
	if saidReady(n) {
		return toned(describe.OfReady(n), asReported("Ready", n.Unconfirmed))
	}
	return toned(describe.OfReady(n), asReported("Not ready", n.Unconfirmed))
}

// saidReady is whether a node is Ready; of one that a restore brought back, whether it said so before.
func saidReady(n api.Node) bool {
	if n.Unconfirmed {
		c := n.Status.Condition(api.ConditionReady)
		return c != nil && c.Status == api.ConditionTrue
	}
	return n.Ready
}

// inContact is whether what a node says is said now.
func inContact(n api.Node) bool { return n.State == api.NodeEnrolled && !n.Unconfirmed }

// readyOf is how many of these nodes are Ready, and of how many. A node whose identity was revoked has
// been replaced or has left.
func readyOf(nodes []api.Node) (ready, all int) {
	for _, n := range nodes {
		if n.State == api.NodeRevoked {
			continue
		}
		all++
		if saidReady(n) {
			ready++
		}
	}
	return ready, all
}

// nodeTable is nodes in rows. In a narrow window those that are Ready are folded.
type nodeTable struct {
	Rows []nodeRow
	// Healthy is how many are Ready; Open is whether they are not folded at first; Part is whether there
	// are more nodes than these; Own is as in table.
	Healthy         int
	Open, Part, Own bool
}

func (f Frame) nodeTable(nodes []api.Node) (t nodeTable) {
	for _, n := range nodes {
		row := f.nodeRow(n)
		if row.Healthy {
			t.Healthy++
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// byInstance are the nodes of each instance.
func byInstance(nodes []api.Node) map[string][]api.Node {
	of := map[string][]api.Node{}
	for _, n := range nodes {
		of[n.VnfInstanceID] = append(of[n.VnfInstanceID], n)
	}
	return of
}

// nodesOf is the list of the nodes of an instance.
func nodesOf(instanceID string) string {
	return withQuery(PathNodes, map[string][]string{"instance": {instanceID}})
}

// troubleFirst sorts nodes by what keeps them from being Ready: those that no waiting mends first, Ready
// ones last.
func troubleFirst(nodes []api.Node) {
	ranks := make(map[string]int, len(nodes))
	for _, n := range nodes {
		ranks[n.ID] = troubleOf(n)
	}
	slices.SortStableFunc(nodes, func(a, b api.Node) int { return cmp.Compare(ranks[a.ID], ranks[b.ID]) })
}

func troubleOf(n api.Node) int {
	switch {
	case n.Ready:
		return 6
	case n.State == api.NodeRevoked:
		return 5
	case n.State == api.NodeExpected:
		return 4
	case n.State == api.NodeLost:
		return 1
	case stoppedForGood(n):
		return 0
	case describe.OfReady(n) == describe.Bad:
		return 2
	}
	return 3
}

// stoppedForGood reports whether no waiting mends what keeps a node from being Ready.
func stoppedForGood(n api.Node) bool {
	return slices.ContainsFunc(describe.PresentConditions(n), func(c api.Condition) bool {
		return c.Status == api.ConditionFalse && api.Reasons[c.Reason].Final
	}) || slices.ContainsFunc(n.Withheld, func(w api.Withheld) bool { return api.Reasons[w.Reason].Final })
}

type nodesPage struct {
	Nodes nodeTable
	Pager pager
}

func (v Nodes) content(f Frame) content {
	query := f.query()
	var found []api.Node
	for _, n := range v.Nodes {
		if fits(query, "state", n.State) && fits(query, "role", n.Role) && fits(query, "ready", describe.Truth(n.Ready)) &&
			begins(query, "instance", n.VnfInstanceID, n.VnfInstanceName) && contains(query, nodeTexts(n)...) {
			found = append(found, n)
		}
	}
	troubleFirst(found)
	form := newFilter(f, PathNodes, textControl("name, id, address, reason"),
		choice("state", "State", nodeStates...), choice("ready", "Ready", describe.Truth(true), describe.Truth(false)),
		choice("role", "Role", roles...), control{Name: "instance", Label: "Instance", Hint: nameHint})
	shown, pager := paged(f, form, found, len(v.Nodes))
	nodes := f.nodeTable(shown)
	nodes.Part = len(pager.Pages) > 0
	nodes.Open = pager.Filtered || pager.From > 1
	return content{name: "nodes", title: "Nodes", lead: "Every server that has a role, and what stands between it and Ready.", filter: &form,
		changed: []string{ChangedNodes}, data: nodesPage{Nodes: nodes, Pager: pager}}
}

var (
	nodeStates = []api.NodeState{api.NodeEnrolled, api.NodeExpected, api.NodeLost, api.NodeRevoked}
	roles      = []api.Role{api.RoleMaster, api.RoleWorker, api.RoleStorage, api.RoleRegistry}
)

// nodeTexts is where a text is looked for.
func nodeTexts(n api.Node) []string {
	texts := append([]string{n.Name, n.ID, describe.Why(n), string(n.Attestation)}, n.Addresses...)
	for _, c := range describe.Conditions(n) {
		texts = append(texts, c.Reason)
	}
	for _, w := range n.Withheld {
		texts = append(texts, w.Reason)
	}
	if n.Status != nil {
		texts = append(texts, n.Status.Facts.AgentVersion, n.Status.Facts.Hostname)
	}
	return texts
}

// step is a step of a node on its track.
type step struct {
	Name, Mark, Text string
}

func track(n api.Node) (list []step) {
	for _, s := range describe.Steps(n) {
		shown := step{Name: s.Name, Mark: "plain", Text: "not yet"}
		switch {
		case s.Done:
			shown.Mark, shown.Text = "good", "done"
		case !s.Since.IsZero():
			shown.Mark, shown.Text = "wait", "in progress"
		case s.Bad:
			shown.Mark, shown.Text = "bad", s.Text
		case s.Text != "":
			shown.Mark, shown.Text = "wait", s.Text
		}
		list = append(list, shown)
	}
	return list
}

// conditionShown is a condition with what its reason means, and what to do unless all is well.
type conditionShown struct {
	Type            string
	Badge           badge
	Reason          string
	For             stamp
	Message         string
	Meaning, Action string
	Good            bool
}

func (f Frame) conditions(n api.Node) (list []conditionShown) {
	for _, c := range describe.Conditions(n) {
		shown := conditionShown{Type: c.Type, Badge: toned(describe.OfCondition(n, c), string(c.Status)), Reason: c.Reason,
			For: f.last(c.LastTransitionTime), Message: c.Message, Meaning: api.Reasons[c.Reason].Meaning, Good: c.Status == api.ConditionTrue}
		if !shown.Good {
			shown.Action = api.Reasons[c.Reason].Action
		}
		list = append(list, shown)
	}
	return list
}

// withheldShown is a section that a node does not get yet.
type withheldShown struct {
	Section         string
	Badge           badge
	Message         string
	Meaning, Action string
	Node, WaitsFor  *name
}

func (f Frame) withheld(list []api.Withheld, names map[string]string) (shown []withheldShown) {
	for _, w := range list {
		doc := api.Reasons[w.Reason]
		s := withheldShown{Section: w.Section, Badge: toned(describe.OfReason(w.Reason), w.Reason), Message: w.Message, Meaning: doc.Meaning, Action: doc.Action}
		if w.NodeID != "" {
			node := nodeName(names[w.NodeID], w.NodeID)
			s.Node = &node
		}
		if w.WaitsFor != "" {
			other := nodeName(names[w.WaitsFor], w.WaitsFor)
			s.WaitsFor = &other
		}
		shown = append(shown, s)
	}
	return shown
}

// ownWithheld is what a node does not get; other nodes are known by the operations.
func (f Frame) ownWithheld(v Node) []withheldShown {
	names := map[string]string{}
	for _, o := range v.Operations {
		for _, t := range o.Targets {
			names[t.NodeID] = t.Name
		}
	}
	shown := f.withheld(v.Node.Withheld, names)
	for i := range shown {
		shown[i].Node = nil
	}
	return shown
}

type nodePage struct {
	Name           string
	ID             string
	State, Ready   badge
	Meaning, Why   string
	Doing          *activityShown
	Track          []step
	Facts          []field
	Conditions     []conditionShown
	Withheld       []withheldShown
	Volumes        []volumeRow
	OwnVolumes     bool
	Upgrade        *upgradeShown
	Operations     []operationRow
	Events         []eventRow
	History        string
	Commands       []command
	NothingReports string
}

// activityShown is what the agent does now.
type activityShown struct {
	Summary, Condition string
	For                stamp
}

// activity is what an agent does now, nil for nothing.
func (f Frame) activity(a *api.Activity) *activityShown {
	if a == nil {
		return nil
	}
	return &activityShown{Summary: a.Summary, Condition: a.Condition, For: f.last(a.StartedAt)}
}

// doingOf is what each node does, by id.
func doingOf(nodes []api.Node) map[string]*api.Activity {
	doing := make(map[string]*api.Activity, len(nodes))
	for _, n := range nodes {
		if n.Status != nil {
			doing[n.ID] = n.Status.Activity
		}
	}
	return doing
}

// upgradeShown is the state of the agent's upgrade.
type upgradeShown struct {
	Text            string
	Meaning, Action string
	Refused         []field
}

func (v Node) content(f Frame) content {
	n := v.Node
	p := nodePage{Name: cmp.Or(n.Name, n.ID), ID: n.ID, State: unconfirmed(toned(describe.OfNode(n.State), string(n.State)), n.Unconfirmed), Ready: readiness(n),
		Meaning: describe.NodeState(n.State), Track: track(n), Facts: f.nodeFacts(n), Conditions: f.conditions(n), Withheld: f.ownWithheld(v),
		Events: f.newest(v.Events, fewEvents), History: withQuery(PathHistory, map[string][]string{"node": {n.ID}}), Commands: nodeCommands(n)}
	if n.Unconfirmed {
		p.Meaning = describe.UnconfirmedNode(n)
	}
	if n.Status != nil {
		p.Doing = f.activity(n.Status.Activity)
	}
	if !n.Ready && p.Doing == nil && n.State != api.NodeLost && n.State != api.NodeRevoked {
		p.Why = describe.Why(n)
	}
	if n.Status != nil && n.Status.AgentUpgrade != nil {
		p.Upgrade = f.upgrade(*n.Status.AgentUpgrade)
	}
	for _, o := range v.Operations {
		for _, t := range o.Targets {
			if t.NodeID == n.ID {
				p.Operations = append(p.Operations, f.operationRow(o, v.Operations))
				break
			}
		}
	}
	p.Operations, _ = few(p.Operations, 5)
	for _, vol := range v.Volumes {
		p.Volumes = append(p.Volumes, f.volumeRow(vol, map[string]*api.Node{n.ID: &n}))
	}
	p.OwnVolumes = !slices.ContainsFunc(v.Volumes, func(vol api.Volume) bool { return vol.VnfInstanceID != n.VnfInstanceID })
	return content{name: "node", title: p.Name, section: PathNodes, changed: []string{ChangedNodes, ChangedVolumes, ChangedOperations, ChangedEvents}, data: p}
}

func (f Frame) nodeFacts(n api.Node) []field {
	instance := instanceName(n.VnfInstanceName, n.VnfInstanceID)
	list := []field{
		{Label: "Id", Text: n.ID}, {Label: "Instance", Link: &instance}, {Label: "Role", Text: string(n.Role)},
		{Label: "Addresses", Text: strings.Join(n.Addresses, ", ")},
		{Label: "Enrolled", Time: f.both(n.EnrolledAt)},
	}
	if n.Attestation != "" {
		list = append(list, field{Label: "Attested", Text: string(n.Attestation) + ", " + describe.Attestation(n.Attestation)})
	}
	list = append(list, field{Label: "Last seen", Time: f.both(n.LastSeenAt)})
	if n.CertificateSerial != "" {
		list = append(list, field{Label: "Certificate", Text: "serial " + n.CertificateSerial}, field{Label: "Certificate until", Time: f.both(n.CertificateNotAfter)})
	}
	list = append(list, field{Label: "Present document", Text: generation(n.Generation)})
	if s := n.Status; s != nil {
		list = append(list, field{Label: "Reported", Text: describe.Reported(*s)}, field{Label: "System", Text: describe.System(s.Facts)},
			field{Label: "Host name", Text: s.Facts.Hostname}, field{Label: "Agent", Text: s.Facts.AgentVersion}, field{Label: "Kubelet", Text: s.Facts.KubeletVersion})
		if c := s.ControlPlane; c != nil {
			list = append(list, field{Label: "Kubernetes certificates until", Time: f.both(&c.CertificatesExpireAt)})
		}
	}
	return fields(list...)
}

func (f Frame) upgrade(u api.AgentUpgrade) *upgradeShown {
	text, doc := describe.Upgrade(u)
	shown := &upgradeShown{Text: text, Meaning: doc.Meaning, Action: doc.Action}
	for _, r := range u.Refused {
		shown.Refused = append(shown.Refused, field{Label: r.Version, Text: short(r.Sha256), Time: f.both(&r.At)})
	}
	return shown
}

// nodeCommands are what an operator may want of a node.
func nodeCommands(n api.Node) []command {
	list := []command{hitchctl("the same on a terminal", "describe", "node", n.ID)}
	if n.Unconfirmed {
		list = append(list, hitchctl("let the nodes of the restored instance in again", "confirm", "instance", n.VnfInstanceID))
	}
	if n.State != api.NodeRevoked {
		list = append(list, hitchctl("wait until it is Ready", "wait", "node", n.ID))
	}
	if n.State != api.NodeExpected {
		list = append(list, hitchctl("let a server that was rebuilt in place enroll once more", "node", "reenroll", n.ID))
	}
	if n.State != api.NodeRevoked {
		list = append(list, destroys(hitchctl("revoke its identity at once", "node", "revoke", n.ID)))
	}
	return list
}
