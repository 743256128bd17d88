package present

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Node describes a node, each condition with its meaning and what to do.
func Node(s *screen.Screen, n api.Node, events []api.Event, now time.Time) []string {
	p := &page{screen: s, now: now}
	p.field("Name", n.Name)
	p.field("ID", n.ID)
	p.instance(n.VnfInstanceName, n.VnfInstanceID)
	p.field("Role", string(n.Role))
	p.field("State", string(n.State)+", "+describe.NodeState(n.State))
	if n.Unconfirmed {
		p.field("Unconfirmed", describe.UnconfirmedNode(n))
	}
	p.field("Ready", describe.Truth(n.Ready))
	p.field("Addresses", strings.Join(n.Addresses, ", "))
	p.field("Enrolled", p.moment(n.EnrolledAt))
	p.field("Attested", attestation(n.Attestation))
	p.field("Last seen", p.moment(n.LastSeenAt))
	if n.CertificateSerial != "" {
		p.field("Certificate", "serial "+n.CertificateSerial+", until "+p.moment(n.CertificateNotAfter))
	}
	p.field("Generation", fmt.Sprint(n.Generation))
	if n.Status != nil {
		p.status(n)
	}
	p.withheld(n.Withheld)
	p.lastEvents(events)
	return p.lines
}

// instance is the instance that an object belongs to.
func (p *page) instance(name, id string) { p.field("Instance", View{Wide: true}.instance(name, id)) }

// attestation is empty for a node that has not enrolled, or long ago.
func attestation(a api.Attestation) string {
	if a == "" {
		return ""
	}
	return string(a) + ", " + describe.Attestation(a)
}

func (p *page) status(n api.Node) {
	s, conditions := n.Status, describe.Conditions(n)
	p.field("Reported", describe.Reported(*s))
	f := s.Facts
	p.field("System", describe.System(f))
	p.field("Host name", f.Hostname)
	p.field("Agent", f.AgentVersion)
	p.field("Kubelet", f.KubeletVersion)
	if c := s.ControlPlane; c != nil {
		text := "certificates of the control plane until " + p.moment(&c.CertificatesExpireAt)
		if c.RenewalDue {
			text += ", due for renewal"
		}
		p.field("Kubernetes", text)
	}
	if u := s.AgentUpgrade; u != nil {
		p.upgrade(*u)
	}
	if a := s.Activity; a != nil {
		p.field("Doing", fmt.Sprintf("%s (%s, for %s)", a.Summary, a.Condition, describe.Age(p.now.Sub(a.StartedAt))))
	}
	p.heading("Conditions")
	if len(conditions) == 0 {
		p.text(2, screen.Faint, "none reported yet")
	}
	width := 15
	for _, c := range conditions {
		width = max(width, utf8.RuneCountInString(screen.Clean(c.Type)))
	}
	for _, c := range conditions {
		p.condition(n, c, width)
	}
}

// upgrade is the state of the agent's upgrade, what the reason means unless all is well, and
// which builds the agent refuses.
func (p *page) upgrade(u api.AgentUpgrade) {
	state, doc := describe.Upgrade(u)
	p.field("Upgrade", state)
	if doc.Meaning != "" {
		p.doc(labelWidth, doc)
	}
	for _, r := range u.Refused {
		p.field("Refused", fmt.Sprintf("%s, sha256:%.12s, at %s", r.Version, r.Sha256, p.moment(&r.At)))
	}
}

// condition is one of those whose names have at most so many characters.
func (p *page) condition(n api.Node, c api.Condition, width int) {
	p.line(2, style(describe.OfCondition(n, c)), fmt.Sprintf("%-*s %-7s %s, for %s",
		width, screen.Clean(c.Type), c.Status, screen.Clean(c.Reason), describe.Age(p.now.Sub(c.LastTransitionTime))))
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
	p.field("Name", i.Name)
	p.field("ID", i.ID)
	p.field("Labels", describe.Labels(i.Labels))
	p.field("Kind", string(i.Kind))
	p.field("State", string(i.State))
	if i.Unconfirmed {
		p.field("Unconfirmed", p.origin(i.Restored)+"; "+describe.UnconfirmedInstance(i))
	}
	p.stack(i)
	p.field("Version", fmt.Sprint(i.DesiredVersion))
	p.field("Created", p.moment(&i.CreatedAt))
	p.field("Changed", p.moment(&i.UpdatedAt))
	p.heading("Nodes")
	if len(nodes) == 0 {
		p.text(2, screen.Faint, describe.NoNodes)
	} else {
		p.table(View{Now: now}.Nodes(nodes))
	}
	p.servers(i.Topology)
	if len(i.Files)+len(i.MissingFiles) > 0 {
		p.heading("Package files")
	}
	for _, f := range i.Files {
		p.text(2, screen.Normal, fmt.Sprintf("%s  %s  sha256:%.12s", f.Path, describe.Size(f.SizeBytes), f.Sha256))
		for _, fault := range f.Faults {
			p.text(6, screen.Bad, fault.String())
		}
	}
	for _, path := range i.MissingFiles {
		p.text(2, screen.Bad, path+"  "+describe.MissingFile)
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
	named := slices.DeleteFunc(slices.Clone(t.Servers), func(s api.Server) bool { return describe.Server(s) == "" })
	if len(named) > 0 {
		p.heading("Servers")
	}
	for _, s := range named {
		p.text(2, screen.Normal, s.Name+"  "+s.ID+describe.Server(s))
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
	text := s.Status + ", " + describe.StackSource(*s) + " at " + p.moment(s.ObservedAt)
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
	p.instance(o.VnfInstanceName, o.VnfInstanceID)
	p.field("Operation", describe.OperationName(o))
	p.field("State", string(o.State))
	p.field("Started", p.moment(&o.StartedAt))
	p.field("Finished", p.moment(o.FinishedAt))
	if o.FinishedAt == nil {
		p.field("Deadline", p.moment(&o.Deadline))
	}
	p.field("Stack", o.StackID)
	p.field("Key", o.IdempotencyKey)
	if o.Force {
		p.field("Force", describe.Forced)
	}
	if o.PersistentVolumes != "" {
		p.field("Volumes", describe.PersistentVolumes(o.PersistentVolumes))
	}
	if o.OldServerIsOffBy != "" {
		p.field("Old server", describe.OldServerIsOff(o.OldServerIsOffBy))
	}
	if o.Error != nil {
		p.heading("Why it failed")
		p.text(2, screen.Bad, describe.Problem(*o.Error))
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
	p.withheld(slices.DeleteFunc(slices.Clone(o.Withheld), func(w api.Withheld) bool {
		return slices.ContainsFunc(o.Targets, func(t api.OperationTarget) bool { return t.NodeID == w.NodeID && t.Message == w.Message })
	}))
	p.faults("Warnings", o.Warnings)
	p.timeline(o, events)
	p.lastEvents(slices.DeleteFunc(slices.Clone(events), func(e api.Event) bool { return e.OperationID != o.ID }))
	return p.lines
}

func (p *page) target(t api.OperationTarget) {
	text, tone := describe.Target(t)
	p.text(2, style(tone), t.Name+"  "+text)
	if t.Ready {
		return
	}
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
	p.instance(v.VnfInstanceName, v.VnfInstanceID)
	p.field("Node", v.NodeID)
	if v.SizeBytes > 0 {
		p.field("Size", fmt.Sprintf("%s (%d bytes)", describe.Size(v.SizeBytes), v.SizeBytes))
	}
	filesystem := "ext4, UUID " + v.FilesystemUUID
	if describe.NeverFormatted(v) {
		filesystem = "none known; a format would give the UUID " + v.FilesystemUUID
	}
	p.field("Filesystem", filesystem)
	permit, doc := describe.Permit(v)
	p.field("Permit", permit+", "+doc)
	p.field("Permit for", v.PermitNodeID)
	p.field("Changed", p.moment(v.ChangedAt))
	p.lastEvents(events)
	return p.lines
}
