package present

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Node describes a node, each condition with its meaning and what to do.
func Node(s *screen.Screen, n api.Node, events []api.Event, now time.Time) []string {
	p := &page{screen: s, now: now}
	p.field("Name", n.Name)
	p.field("ID", n.ID)
	p.field("Instance", n.VnfInstanceID)
	p.field("Role", string(n.Role))
	p.field("State", stateDoc(n.State))
	if n.Unconfirmed {
		p.field("Unconfirmed", "restored from a backup; its calls are refused until `hitchctl confirm "+Short(n.VnfInstanceID)+"`")
	}
	p.field("Ready", yesNo(n.Ready).Text)
	p.field("Addresses", strings.Join(n.Addresses, ", "))
	p.field("Enrolled", p.moment(n.EnrolledAt))
	p.field("Attested", attestationDoc(n.Attestation))
	p.field("Last seen", p.moment(n.LastSeenAt))
	if n.CertificateSerial != "" {
		p.field("Certificate", "serial "+n.CertificateSerial+", until "+p.moment(n.CertificateNotAfter))
	}
	p.field("Generation", fmt.Sprint(n.Generation))
	if n.Status != nil {
		p.status(*n.Status)
	}
	p.withheld(n.Withheld)
	p.lastEvents(events)
	return p.lines
}

func stateDoc(s api.NodeState) string {
	doc := map[api.NodeState]string{
		api.NodeExpected: "in the topology; its agent has not enrolled: " + api.Reasons[api.ReasonNotEnrolled].Action,
		api.NodeEnrolled: "it has a live identity",
		api.NodeLost:     "it has not called for three cadences and keeps its last configuration: check the VM and the network",
		api.NodeRevoked:  "its identity is revoked; `hitchctl node reenroll` lets it enroll again",
	}
	return string(s) + ", " + doc[s]
}

// attestationDoc is empty for a node that has not enrolled, or long ago.
func attestationDoc(a api.Attestation) string {
	doc := map[api.Attestation]string{
		api.AttestedByToken: "by its join token only",
		api.AttestedByNova:  "Nova and Heat know the server; it was not asked for a nonce, or none could be written",
		api.AttestedByNonce: "Nova and Heat know the server, and it read a nonce from its own metadata service",
	}
	if a == "" {
		return ""
	}
	return string(a) + ", " + doc[a]
}

func (p *page) status(s api.NodeStatus) {
	reported := fmt.Sprintf("%d seen, %d applied", s.ObservedGeneration, s.AppliedGeneration)
	if s.LastFailedGeneration > 0 {
		reported += fmt.Sprintf(", %d failed at %s", s.LastFailedGeneration, s.LastFailedCondition)
	}
	p.field("Reported", reported)
	f := s.Facts
	system := slices.DeleteFunc([]string{f.OSImage, f.KernelVersion, f.Architecture}, func(s string) bool { return s == "" })
	p.field("System", strings.Join(system, ", "))
	p.field("Host name", f.Hostname)
	p.field("Agent", f.AgentVersion)
	if u := s.AgentUpgrade; u != nil {
		p.upgrade(*u)
	}
	if a := s.Activity; a != nil {
		p.field("Doing", fmt.Sprintf("%s (%s, for %s)", a.Summary, a.Condition, Age(p.now.Sub(a.StartedAt))))
	}
	p.heading("Conditions")
	if len(s.Conditions) == 0 {
		p.text(2, screen.Faint, "none reported yet")
	}
	for _, c := range ordered(s.Conditions) {
		p.condition(c)
	}
}

// upgrade is the state of the agent's upgrade, what the reason means unless all is well, and
// which builds the agent refuses.
func (p *page) upgrade(u api.AgentUpgrade) {
	state := reasonAndMessage(u.Reason, u.Message)
	doc, known := api.UpgradeReasons[u.Reason]
	if u.Reason == api.UpgradeUpToDate {
		known = false
	} else if u.Version != "" {
		state = "to " + u.Version + ", " + state
	}
	p.field("Upgrade", state)
	if known {
		p.doc(labelWidth, doc)
	}
	for _, r := range u.Refused {
		p.field("Refused", fmt.Sprintf("%s, sha256:%.12s, at %s", r.Version, r.Sha256, p.moment(&r.At)))
	}
}

func (p *page) condition(c api.Condition) {
	p.line(2, conditionStyle(c.Status), fmt.Sprintf("%-15s %-7s %s, for %s",
		screen.Clean(c.Type), c.Status, screen.Clean(c.Reason), Age(p.now.Sub(c.LastTransitionTime))))
	if c.Message != "" {
		p.text(6, screen.Normal, c.Message)
	}
	if c.Status != api.ConditionTrue {
		p.reason(6, c.Reason)
	}
}

// Instance describes an instance with its nodes.
func Instance(s *screen.Screen, i api.Instance, nodes []api.Node, events []api.Event, now time.Time) []string {
	p := &page{screen: s, now: now}
	p.field("ID", i.ID)
	p.field("Kind", string(i.Kind))
	p.field("State", string(i.State))
	if i.Unconfirmed {
		p.field("Unconfirmed", p.origin(i.Restored)+"; its nodes are refused until `hitchctl confirm "+Short(i.ID)+"`")
	}
	p.stack(i)
	p.field("Version", fmt.Sprint(i.DesiredVersion))
	p.field("Created", p.moment(&i.CreatedAt))
	p.field("Changed", p.moment(&i.UpdatedAt))
	p.heading("Nodes")
	if len(nodes) == 0 {
		p.text(2, screen.Faint, "none; a topology names them (`hitchctl apply --topology`, or an operation's)")
	} else {
		p.table(View{Now: now}.Nodes(nodes))
	}
	p.servers(i.Topology)
	if len(i.Files)+len(i.MissingFiles) > 0 {
		p.heading("Package files")
	}
	for _, f := range i.Files {
		p.text(2, screen.Normal, fmt.Sprintf("%s  %s  sha256:%.12s", f.Path, Size(f.SizeBytes), f.Sha256))
		for _, fault := range f.Faults {
			p.text(6, screen.Bad, fault.String())
		}
	}
	for _, path := range i.MissingFiles {
		p.text(2, screen.Bad, path+"  missing: `hitchctl apply --package` uploads it")
	}
	p.faults("Warnings", i.Warnings)
	p.lastEvents(events)
	return p.lines
}

// servers lists by what an operation may name the servers, besides their ids.
func (p *page) servers(t *api.Topology) {
	if t == nil {
		return
	}
	named := slices.DeleteFunc(slices.Clone(t.Servers), func(s api.Server) bool { return s.VnfcInstanceID == "" && s.MemberStackID == "" })
	if len(named) > 0 {
		p.heading("Servers")
	}
	for _, s := range named {
		text := s.Name + "  " + s.ID
		if s.VnfcInstanceID != "" {
			text += "  VNFC instance " + s.VnfcInstanceID
		}
		if s.MemberStackID != "" {
			text += "  nested stack " + s.MemberStackID
		}
		p.text(2, screen.Normal, text)
	}
}

// stack says what is known of the instance's Heat stack, and by whom.
func (p *page) stack(i api.Instance) {
	s := i.Stack
	if s == nil || s.Name == "" {
		p.field("Stack", i.StackID)
	} else {
		p.field("Stack", s.Name+", "+i.StackID)
	}
	if s == nil || s.Status == "" {
		return
	}
	source := "as Heat said"
	if s.Source == api.ObservedInRequest {
		source = "as a request said"
	}
	text := s.Status + ", " + source + " at " + p.moment(s.ObservedAt)
	if s.StatusReason != "" {
		text += ": " + s.StatusReason
	}
	p.field("Stack status", text)
}

// Operation describes an operation with its targets, and how long each took by the events of the
// instance.
func Operation(s *screen.Screen, o api.Operation, events []api.Event, now time.Time) []string {
	p := &page{screen: s, now: now}
	p.field("ID", o.ID)
	p.field("Instance", o.VnfInstanceID)
	p.field("Operation", OperationName(o))
	p.field("State", string(o.State))
	p.field("Started", p.moment(&o.StartedAt))
	p.field("Finished", p.moment(o.FinishedAt))
	if o.FinishedAt == nil {
		p.field("Deadline", p.moment(&o.Deadline))
	}
	p.field("Stack", o.StackID)
	p.field("Key", o.IdempotencyKey)
	if o.Force {
		p.field("Force", "members leave the cluster even if it does not let them")
	}
	if o.Error != nil {
		p.heading("Why it failed")
		p.text(2, screen.Bad, Problem(*o.Error))
		if o.Error.Detail != "" {
			p.text(2, screen.Normal, o.Error.Detail)
		}
		for _, f := range o.Error.InvalidParams {
			p.text(4, screen.Normal, f.String())
		}
	}
	if len(o.Leaving) > 0 {
		p.heading("Leave the cluster")
	}
	for _, m := range o.Leaving {
		p.text(2, screen.Normal, m.Name+"  "+m.NodeID)
	}
	p.heading("Targets")
	if len(o.Targets) == 0 {
		p.text(2, screen.Faint, "none: it changes no node")
	}
	for _, t := range o.Targets {
		p.target(t)
	}
	p.withheld(o.Withheld)
	p.faults("Warnings", o.Warnings)
	p.waterfall(o, events)
	p.lastEvents(slices.DeleteFunc(slices.Clone(events), func(e api.Event) bool { return e.OperationID != o.ID }))
	return p.lines
}

func (p *page) target(t api.OperationTarget) {
	if t.Ready {
		p.text(2, screen.Good, t.Name+"  Ready")
		return
	}
	style, reason := screen.Waiting, cmp.Or(t.Reason, none)
	if t.Final {
		style, reason = screen.Bad, reason+", final: no waiting mends it"
	}
	p.text(2, style, t.Name+"  "+reason)
	if t.Message != "" {
		p.text(6, screen.Normal, t.Message)
	}
	p.reason(6, t.Reason)
}

// Volume describes a volume and its permit.
func Volume(s *screen.Screen, v api.Volume, events []api.Event, now time.Time) []string {
	p := &page{screen: s, now: now}
	p.field("ID", v.ID)
	p.field("Resource", v.ResourceID)
	p.field("Instance", v.VnfInstanceID)
	p.field("Node", v.NodeID)
	if v.SizeBytes > 0 {
		p.field("Size", fmt.Sprintf("%s (%d bytes)", Size(v.SizeBytes), v.SizeBytes))
	}
	p.field("Filesystem", "ext4, UUID "+v.FilesystemUUID)
	if v.ReformatRequested {
		p.field("Permit", "Reformat, its node may format it once, whatever the disk holds")
	} else {
		p.field("Permit", permitDoc(v.PermitState))
	}
	p.field("Permit for", v.PermitNodeID)
	p.field("Changed", p.moment(v.ChangedAt))
	p.lastEvents(events)
	return p.lines
}

func permitDoc(s api.PermitState) string {
	doc := map[api.PermitState]string{
		api.PermitNone:        "nothing is permitted yet; its node asks once the disk passed the blank check",
		api.PermitGranted:     "a node may format it, and has not begun",
		api.PermitStarted:     "its node is formatting it",
		api.PermitFormatted:   "it was formatted, and is not formatted again",
		api.PermitInterrupted: "its node left while it was formatting or permitted to reformat, so the disk may hold anything; `hitchctl volume adopt` keeps its filesystem, `hitchctl volume reformat` permits a new one",
		api.PermitAdopted:     "an operator named the filesystem that it holds",
	}
	return string(s) + ", " + doc[s]
}
