package present_test

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/present"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
)

var start = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// node is one whose document is the present one, with conditions "Type Status Reason".
func node(name string, conditions ...string) api.Node {
	n := api.Node{ID: name + "-id", Name: name, Role: api.RoleStorage, State: api.NodeEnrolled, Digest: "d", Generation: 2}
	n.Status = &api.NodeStatus{ObservedDigest: "d", ObservedGeneration: 2, AppliedGeneration: 2}
	for _, c := range conditions {
		parts := strings.SplitN(c, " ", 4)
		condition := api.Condition{Type: parts[0], Status: api.ConditionStatus(parts[1]), Reason: parts[2], LastTransitionTime: start}
		if len(parts) == 4 {
			condition.Message = parts[3]
		}
		n.Status.Conditions = append(n.Status.Conditions, condition)
		n.Ready = n.Ready || c == "Ready True Ready"
	}
	return n
}

func expected(name string) api.Node {
	return api.Node{ID: name + "-id", Name: name, Role: api.RoleStorage, State: api.NodeExpected}
}

func doing(n api.Node, condition, summary string, since time.Time) api.Node {
	n.Status.Activity = &api.Activity{Condition: condition, Summary: summary, StartedAt: since}
	return n
}

// film is how a storage VM comes up, seen every ten seconds.
var film = []api.Node{
	expected("storage"),
	doing(node("storage", "ExportsServed False NotMounted", "VolumesMounted False Converging"), "VolumesMounted", "formatting virtio-9a0d with ext4", at(4)),
	node("storage", "ExportsServed False ServerNotRunning it says: no", "VolumesMounted True Mounted"),
	node("storage", "ExportsServed True Served", "VolumesMounted True Mounted", "Ready True Ready"),
}

func TestProgressInPlace(t *testing.T) {
	p := present.Progress{Title: "INSTANTIATE END of instance 0b1a5c2e", Started: start}
	s := screen.Plain(&bytes.Buffer{}, 80)
	var got []string
	for i, n := range film {
		now := at(i * 10)
		p.Note([]api.Node{n}, now)
		got = append(got, p.Lines(s, []api.Node{n}, describe.Age(now.Sub(start)), now)...)
	}
	want := strings.TrimPrefix(`
INSTANTIATE END of instance 0b1a5c2e                                          0s

NODE     Enrolled    Ready
storage  … Expected  ·
  └ its agent has not enrolled yet
INSTANTIATE END of instance 0b1a5c2e                                         10s

NODE     Enrolled  VolumesMounted  ExportsServed  Ready
storage  ✓ 10s     ⠹ 6s            … NotMounted   ·
  └ formatting virtio-9a0d with ext4
INSTANTIATE END of instance 0b1a5c2e                                         20s

NODE     Enrolled  VolumesMounted  ExportsServed       Ready
storage  ✓ 10s     ✓ 20s           ✗ ServerNotRunning  ·
  └ ServerNotRunning: it says: no
INSTANTIATE END of instance 0b1a5c2e                                         30s

NODE     Enrolled  VolumesMounted  ExportsServed  Ready
storage  ✓ 10s     ✓ 20s           ✓ 30s          ✓ 30s`, "\n")
	text := strings.Join(got, "\n")
	// Which picture the spinner shows is of no interest.
	for _, r := range "⠋⠙⠸⠼⠴⠦⠧⠇⠏" {
		text = strings.ReplaceAll(text, string(r), "⠹")
	}
	if diff := cmp.Diff(want, text); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"storage: Enrolled 10s, VolumesMounted 20s, ExportsServed 30s, Ready 30s"}, p.Summary()); diff != "" {
		t.Error(diff)
	}
}

func TestProgressLineByLine(t *testing.T) {
	p := present.Progress{Started: start}
	var got []string
	for i, n := range append(film, film[3]) {
		p.Note([]api.Node{n}, at(i*10))
		got = append(got, p.Transitions([]api.Node{n}, at(i*10))...)
	}
	want := []string{
		"   +0s  storage  Expected",
		"  +10s  storage  Enrolled",
		"  +10s  storage  formatting virtio-9a0d with ext4",
		"  +10s  storage  VolumesMounted False Converging",
		"  +10s  storage  ExportsServed False NotMounted",
		"  +20s  storage  VolumesMounted True Mounted",
		"  +20s  storage  ExportsServed False ServerNotRunning: it says: no",
		"  +30s  storage  ExportsServed True Served",
		"  +30s  storage  Ready",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A node whose identity was revoked, by TERMINATE say, has no step of its time before.
func TestProgressOfARevokedNode(t *testing.T) {
	revoked := film[3]
	revoked.State, revoked.Ready = api.NodeRevoked, false
	p := present.Progress{Started: start}
	p.Note([]api.Node{revoked}, at(0))
	if diff := cmp.Diff([]string{"   +0s  storage  Revoked"}, p.Transitions([]api.Node{revoked}, at(0))); diff != "" {
		t.Error(diff)
	}
	if text := strings.Join(p.Lines(screen.Plain(io.Discard, 0), []api.Node{revoked}, "", at(0)), "\n"); strings.Contains(text, api.ConditionVolumesMounted) {
		t.Errorf("it shows\n%s", text)
	}
	p = present.Progress{Started: start}
	for i, n := range append(film[:3:3], film[3], revoked) {
		p.Note([]api.Node{n}, at(i*10))
	}
	if got := p.Summary(); len(got) != 0 {
		t.Errorf("after it was revoked: %v", got)
	}
}

// What a node had before the wait began has taken no time of it; what it loses
// meanwhile is not done.
func TestProgressCountsOnlyWhatItSaw(t *testing.T) {
	p := present.Progress{Started: start}
	p.Note(film[3:], at(1))
	if got := p.Summary(); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	p.Note([]api.Node{film[2]}, at(5))
	p.Note(film[3:], at(9))
	if diff := cmp.Diff([]string{"storage: ExportsServed 9s, Ready 9s"}, p.Summary()); diff != "" {
		t.Error(diff)
	}
}

// A condition that is True for another document does not count.
func TestAnOldReportIsNotDone(t *testing.T) {
	n := node("storage", "VolumesMounted True Mounted")
	n.Digest = "newer"
	p := present.Progress{Started: start}
	p.Note([]api.Node{n}, start)
	lines := p.Lines(screen.Plain(&bytes.Buffer{}, 0), []api.Node{n}, "", start)
	if !strings.Contains(lines[3], "… Mounted") {
		t.Errorf("got %q", lines[3])
	}
}

// Lines that are wider than the screen could not be redrawn, so a long command is cut off.
func TestProgressFitsTheScreen(t *testing.T) {
	n := node("storage", "VolumesMounted False NoPermit `hitchctl volume reformat storage`")
	p := present.Progress{Title: "storage to be Ready", Started: start}
	p.Note([]api.Node{n}, start)
	for _, line := range p.Lines(screen.Plain(&bytes.Buffer{}, 30), []api.Node{n}, "0s", start) {
		if got := screen.Width(line); got > 30 {
			t.Errorf("a line of %d columns: %q", got, line)
		}
	}
}

func TestDescribeNode(t *testing.T) {
	n := node("storage", "ExportsServed False NotMounted", "VolumesMounted False ForeignData found xfs on virtio-9a0d", "Custom Unknown Strange")
	n.VnfInstanceID, n.Addresses, n.Attestation = "i", []string{"10.0.0.5"}, api.AttestedByToken
	n.Withheld = []api.Withheld{{Section: "persistentVolumes", Reason: api.ReasonNotMounted, Message: "storage does not serve /volume yet"}}
	n.Status.Facts = api.Facts{OSImage: "Debian GNU/Linux 12", Architecture: "amd64", AgentVersion: "v1\x1b[2J"}
	got := strings.Join(present.Node(screen.Plain(&bytes.Buffer{}, 60), n, nil, at(30)), "\n")
	want := strings.TrimPrefix(`
Name:         storage
ID:           storage-id
Instance:     i
Role:         storage
State:        Enrolled, it has a live identity
Ready:        False
Addresses:    10.0.0.5
Attested:     token, by its join token only
Generation:   2
Reported:     2 seen, 2 applied
System:       Debian GNU/Linux 12, amd64
Agent:        v1?[2J

Conditions
  VolumesMounted  False   ForeignData, for 30s
      found xfs on virtio-9a0d
      means: the disk holds data that nodehitch did not
      write
      do: run `+"`hitchctl volume adopt`"+` to keep an ext4, or
      `+"`hitchctl volume reformat`"+` to erase the disk
  ExportsServed   False   NotMounted, for 30s
      means: the volume of an exported directory, or of a
      registry's data, is not mounted, so its data is not
      served
      do: look at the condition VolumesMounted
  Custom          Unknown Strange, for 30s

Withheld from its configuration
  persistentVolumes: NotMounted
      storage does not serve /volume yet
      means: the volume of an exported directory, or of a
      registry's data, is not mounted, so its data is not
      served
      do: look at the condition VolumesMounted`, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The conditions of a cluster that is made have longer names.
func TestConditionsStandInColumns(t *testing.T) {
	n := node("master", "EngineReady True EngineRunning", "ClusterMembersCurrent True MembersCurrent")
	got := strings.Join(present.Node(screen.Plain(&bytes.Buffer{}, 100), n, nil, at(60)), "\n")
	for _, want := range []string{"  EngineReady           True    EngineRunning, for", "  ClusterMembersCurrent True    MembersCurrent, for"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

// Whose turn it is in an upgrade, and who waits, is said once.
func TestAnUpgradeOfKubernetes(t *testing.T) {
	n := node("master", "ClusterMember True Ready")
	n.Status.Facts.KubeletVersion = "1.34.4"
	n.Status.ControlPlane = &api.ControlPlaneFacts{CertificatesExpireAt: at(3600), RenewalDue: true}
	n.Attestation = api.AttestedByNonce
	got := strings.Join(present.Node(screen.Plain(&bytes.Buffer{}, 100), n, nil, at(0)), "\n")
	for _, want := range []string{"Kubelet:      1.34.4\n", "Kubernetes:   certificates of the control plane until 2030-01-01 13:00:00Z (in 60m), due for renewal\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	v := present.View{Now: at(60), Wide: true}
	table := func(nodes ...api.Node) string {
		return strings.Join(screen.Plain(&bytes.Buffer{}, 0).Lines(v.Nodes(nodes)), "\n")
	}
	if got := table(n, expected("worker")); !strings.Contains(got, "  ATTESTED    VERSION  MESSAGE\n") || !strings.Contains(got, "  nova-nonce  1.34.4") || !strings.Contains(got, "  -           -        its agent") {
		t.Errorf("wide:\n%s", got)
	}
	n.Status.Facts.KubeletVersion = ""
	if got := table(n); strings.Contains(got, "VERSION") {
		t.Errorf("without a kubelet:\n%s", got)
	}
	waits := "is upgraded from 1.34.4 to 1.35.4 after master (m)"
	o := api.Operation{ID: "i/2", Operation: api.ModifyInfo, Phase: api.PhaseEnd, State: api.Processing, StartedAt: start, Targets: []api.OperationTarget{
		{NodeID: "w", Name: "worker", Reason: api.ReasonWaitingForTurn, Message: waits, WaitsFor: "m"},
		{NodeID: "m", Name: "master", Reason: api.ReasonUpgradeFailed, Message: "ClusterMember: kubeadm ended with 1"},
	}, Withheld: []api.Withheld{{NodeID: "w", Section: "kubernetes", Reason: api.ReasonWaitingForTurn, Message: waits, WaitsFor: "m"}}}
	got = strings.Join(present.Operation(screen.Plain(&bytes.Buffer{}, 100), o, nil, at(0)), "\n")
	if strings.Count(got, waits) != 1 || strings.Contains(got, "Withheld") {
		t.Errorf("the operation:\n%s", got)
	}
	if got := describe.Operation(o); got != "master: UpgradeFailed: ClusterMember: kubeadm ended with 1" {
		t.Errorf("in one line: %s", got)
	}
	o.Targets = o.Targets[:1]
	if got := describe.Operation(o); got != "worker: WaitingForTurn: "+waits {
		t.Errorf("in one line, of those who wait: %s", got)
	}
}

func TestTables(t *testing.T) {
	v := present.View{Now: at(60)}
	seen := at(58)
	n := node("storage", "VolumesMounted False ForeignData found xfs")
	n.LastSeenAt = &seen
	got := strings.Join(screen.Plain(&bytes.Buffer{}, 72).Lines(v.Nodes([]api.Node{n, expected("worker")})), "\n")
	want := "NAME     ROLE     STATE     READY  SEEN  ID          MESSAGE\n" +
		"storage  storage  Enrolled  False  2s    storage-id  ForeignData: found…\n" +
		"worker   storage  Expected  False  -     worker-id   its agent has not…"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	n.Attestation = api.AttestedByNonce
	v.Wide = true
	got = strings.Join(screen.Plain(&bytes.Buffer{}, 0).Lines(v.Nodes([]api.Node{n, expected("worker")})), "\n")
	if !strings.Contains(got, "  ATTESTED    MESSAGE\n") || !strings.Contains(got, "  nova-nonce  ForeignData") || !strings.Contains(got, "  -           its agent") {
		t.Errorf("wide:\n%s", got)
	}
	v.Wide = false
	finished := at(42)
	operations := v.Operations([]api.Operation{
		{ID: "0b1a5c2e-7c53/2", VnfInstanceID: "0b1a5c2e-7c53", VnfInstanceName: "web", Sequence: 2, Operation: api.Scale, Type: api.ScaleIn, Phase: api.PhaseStart, State: api.Processing, StartedAt: at(50),
			Targets: []api.OperationTarget{{Name: "storage", Reason: "ForeignData", Message: "found xfs"}}},
		{ID: "0b1a5c2e-7c53/1", VnfInstanceID: "0b1a5c2e-7c53", Sequence: 1, Operation: api.Heal, Phase: api.PhaseEnd, State: api.Completed, StartedAt: start, FinishedAt: &finished},
	})
	got = strings.Join(screen.Plain(&bytes.Buffer{}, 0).Lines(operations), "\n")
	want = "ID          OPERATION       STATE       STARTED  TOOK  INSTANCE  MESSAGE\n" +
		"0b1a5c2e/2  SCALE_IN START  PROCESSING  10s      -     web       storage: ForeignData: found xfs\n" +
		"0b1a5c2e/1  HEAL END        COMPLETED   60s      42s   -"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAgesAndSizes(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 119 * time.Second: "119s", 125 * time.Second: "2m05s", 61 * time.Minute: "61m", 47 * time.Hour: "47h", 72 * time.Hour: "3d",
	} {
		if got := describe.Age(d); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
	for typed, want := range map[time.Duration]string{0: "0s", 90 * time.Second: "1m30s", time.Minute: "1m", 25 * time.Hour: "25h", 90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s", 100 * time.Millisecond: "100ms"} {
		if got := present.Typed(typed); got != want {
			t.Errorf("%s: got %s, want %s", typed, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 1 << 30: "1 GiB", 1<<63 - 1: "8 EiB"} {
		if got := describe.Size(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestBar(t *testing.T) {
	var out bytes.Buffer
	s := screen.Plain(&out, 70)
	now := start
	b := present.NewBar(s, "Files/a.tar", 4096, func() time.Time { return now })
	b.Sent(1024)
	now = at(2)
	b.Sent(4096)
	b.Done()
	if got, want := out.String(), "uploaded Files/a.tar, 4 KiB in 2s\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	out.Reset()
	s.TTY = true
	b = present.NewBar(s, "Files/images/private_registry.tar", 4096, func() time.Time { return now })
	b.Sent(1024)
	b.Done()
	want := "\x1b[?25l\rFiles/images/private_regist… ██████░░░░░░░░░░░░░░░░░░  25 %  1 KiB  0s"
	if got := out.String(); !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAnOperationSaysWhichFailuresAreFinal(t *testing.T) {
	o := api.Operation{Operation: api.Instantiate, Phase: api.PhaseEnd, State: api.Failed, StartedAt: start, Targets: []api.OperationTarget{
		{Name: "storage", Reason: api.ReasonForeignData, Message: "found xfs", Final: true},
		{Name: "master", Reason: api.ReasonWaitingForExports, Message: "of storage"},
		{Name: "worker", Ready: true},
	}}
	page := strings.Join(present.Operation(screen.Plain(&bytes.Buffer{}, 0), o, nil, at(60)), "\n")
	for _, want := range []string{"\n  storage ForeignData, final: no waiting mends it\n", "\n  master WaitingForExports\n", "\n  worker Ready"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in\n%s", want, page)
		}
	}
}

func TestAnOperationSaysWhoLeavesTheClusterAndWhatKeepsThem(t *testing.T) {
	o := api.Operation{Operation: api.Heal, Phase: api.PhaseStart, State: api.Processing, StartedAt: start, Force: true,
		Leaving: []api.LeavingMember{{NodeID: "b", Name: "worker"}},
		Targets: []api.OperationTarget{{Name: "master", Reason: api.ReasonEvictionBlocked, Message: "Pod shop/web-0 on Node w"}}}
	page := strings.Join(present.Operation(screen.Plain(&bytes.Buffer{}, 0), o, nil, at(60)), "\n")
	for _, want := range []string{"Leave the cluster\n  worker b\n", "Force", "\n  master EvictionBlocked\n", "Pod shop/web-0 on Node w"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in\n%s", want, page)
		}
	}
}

func TestAnOperationSaysWhatBecomesOfPersistentVolumesAndByWhoseWord(t *testing.T) {
	o := api.Operation{Operation: api.Heal, Phase: api.PhaseEnd, State: api.Processing, StartedAt: start, PersistentVolumes: api.KeepPersistentVolumes, OldServerIsOffBy: "token night shift"}
	page := strings.Join(present.Operation(screen.Plain(&bytes.Buffer{}, 0), o, nil, at(60)), "\n")
	for _, want := range []string{"keep: Pods wait", "token night shift stated that it does not run"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in\n%s", want, page)
		}
	}
}

func TestAnInstanceSaysHowItsServersAreNamed(t *testing.T) {
	i := api.Instance{Topology: &api.Topology{Servers: []api.Server{
		{ID: "a", Name: "storage"}, {ID: "b", Name: "worker", MemberStackID: "m"}, {ID: "c", Name: "other", VnfcInstanceID: "v"}}}}
	page := strings.Join(present.Instance(screen.Plain(&bytes.Buffer{}, 0), i, nil, nil, at(60)), "\n")
	for want, there := range map[string]bool{"\n  worker b nested stack m": true, "\n  other c VNFC instance v": true, "storage": false} {
		if strings.Contains(page, want) != there {
			t.Errorf("%q is in the page: %v, want %v\n%s", want, !there, there, page)
		}
	}
}

// happened is an event of a node, so many seconds after the start.
func happened(seconds int, node string, what api.EventType, text string) api.Event {
	e := api.Event{At: at(seconds), Type: what, NodeID: node + "-id", NodeName: node, By: "node " + node + "-id"}
	if parts := strings.Fields(text); len(parts) == 4 {
		e.Condition, e.From, e.To, e.Reason = parts[0], strings.TrimPrefix(parts[1], "-"), parts[2], parts[3]
	}
	return e
}

func TestTheTimelineOfAnOperation(t *testing.T) {
	finished := at(100)
	o := api.Operation{ID: "i/1", Operation: api.Instantiate, Phase: api.PhaseEnd, State: api.Failed, StartedAt: start, FinishedAt: &finished, Targets: []api.OperationTarget{
		{NodeID: "worker-id", Name: "worker", Ready: true}, {NodeID: "storage-id", Name: "storage"}, {NodeID: "old-id", Name: "old", Ready: true}}}
	events := []api.Event{
		happened(-50, "worker", api.HappenedEnrolled, ""),
		happened(-40, "old", api.HappenedConditionChanged, "Ready - True Ready"),
		happened(2, "storage", api.HappenedEnrolled, ""),
		happened(2, "storage", api.HappenedDocumentGiven, ""),
		happened(2, "worker", api.HappenedDocumentGiven, ""),
		happened(5, "storage", api.HappenedDocumentObserved, ""),
		happened(5, "storage", api.HappenedConditionChanged, "VolumesMounted - False Converging"),
		happened(10, "worker", api.HappenedDocumentObserved, ""),
		happened(11, "worker", api.HappenedConditionChanged, "Ready False True Ready"),
		happened(12, "storage", api.HappenedConditionChanged, "Ready True True Other"),
		happened(50, "storage", api.HappenedConditionChanged, "VolumesMounted False True Mounted"),
		happened(60, "storage", api.HappenedConditionChanged, "ExportsServed - False ServerNotRunning"),
		happened(200, "storage", api.HappenedConditionChanged, "ExportsServed False True Served"),
	}
	page := present.Operation(screen.Plain(&bytes.Buffer{}, 72), o, events, at(300))
	got := strings.Join(page[slices.IndexFunc(page, func(line string) bool { return strings.HasPrefix(line, "Timeline") }):], "\n")
	want := strings.TrimPrefix(`
Timeline, from 12:00:00Z, 50s
  storage
    Enrolled                █                           2.0s    +2.0s
    Document                ██                          3.0s    +5.0s
    VolumesMounted            ██████████████████████     45s     +50s
    ExportsServed           False ServerNotRunning
  worker
    Document                ████                         10s     +10s
    Ready                       █                       1.0s     +11s`, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%s", diff, got)
	}
	for _, line := range page {
		if width := screen.Width(line); width > 72 {
			t.Errorf("a line of %d columns: %q", width, line)
		}
	}
}

func TestEventsSayWhatAndWhyAndWho(t *testing.T) {
	changed := happened(3, "storage", api.HappenedConditionChanged, "VolumesMounted True False ForeignData")
	changed.Message = "found xfs on\nvirtio-9a0d"
	got := strings.Join(present.Events(screen.Plain(&bytes.Buffer{}, 0), []api.Event{
		{At: at(1), Type: api.HappenedOperationStarted, OperationID: "0b1a5c2e-1111-4000-8000-000000000001/3", To: "PROCESSING", Message: "HEAL", By: "token alice"},
		{At: at(2), Type: api.HappenedDocumentGiven, NodeID: "n", NodeName: "storage", Generation: 4, By: "token alice"},
		changed,
		{At: at(4), Type: api.HappenedPermitGranted, VolumeID: "9a0dbb52-1111-4000-8000-000000000001", NodeID: "n", From: "None", To: "Granted", By: "node n"},
		{At: at(5), Type: api.HappenedOperationEnded, OperationID: "0b1a5c2e-1111-4000-8000-000000000001/3", From: "PROCESSING", To: "FAILED", Reason: "deadline-exceeded", Message: "after 1m", By: "controller"},
		{At: at(6), Type: api.HappenedNodeLost, VnfInstanceID: "0b1a5c2e-1111-4000-8000-000000000001", NodeID: "n", NodeName: "storage", Message: "no call for 3m1s", By: "controller"},
		{At: at(7), Type: api.HappenedTokenCreated, TokenID: "0123456789abcdef", TokenName: "ci", Message: "scope viewer", By: "token alice"},
		{At: at(8), Type: api.HappenedRolloutWave, To: "v1.1.0", Message: "wave 1, nodes: 2", By: "token alice"},
		{At: at(9), Type: api.HappenedStateRestored, From: "1", To: "2", Message: "restored from a backup", By: "uid 0 of this machine"},
	}), "\n")
	want := strings.TrimPrefix(`
2030-01-01 12:00:01Z  OperationStarted    0b1a5c2e/3 HEAL (token alice)
2030-01-01 12:00:02Z  DocumentGiven       storage generation 4 (token alice)
2030-01-01 12:00:03Z  ConditionChanged    storage VolumesMounted True -> False ForeignData: found xfs on virtio-9a0d
2030-01-01 12:00:04Z  PermitGranted       volume 9a0dbb52 None -> Granted
2030-01-01 12:00:05Z  OperationEnded      0b1a5c2e/3 PROCESSING -> FAILED deadline-exceeded: after 1m
2030-01-01 12:00:06Z  NodeLost            storage no call for 3m1s
2030-01-01 12:00:07Z  TokenCreated        token ci scope viewer (token alice)
2030-01-01 12:00:08Z  RolloutWave         agents v1.1.0 wave 1, nodes: 2 (token alice)
2030-01-01 12:00:09Z  StateRestored       controller 1 -> 2 restored from a backup (uid 0 of this machine)`, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReplicas(t *testing.T) {
	lag, late, since := 0.742, 41.3, at(-90)
	list := []api.Replica{
		{ID: "a", State: api.ReplicaLeader, Term: 48113, LeaderSince: &since, Version: "v1.0.0", Schema: 3, URL: "https://a:8444"},
		{ID: "b", State: api.ReplicaFollower, LagSeconds: &lag, Version: "v1.0.0", Schema: 3, URL: "https://b:8444"},
		{ID: "c", State: api.ReplicaFollower, LagSeconds: &late, Version: "v1.0.0", Schema: 3, URL: "https://c:8444", Message: "etcd is silent"},
		{ID: "d", State: api.ReplicaStandby, Version: "v0.9.0", Schema: 2},
	}
	for _, c := range []struct {
		wide bool
		want []string
	}{{false, []string{
		"ID  STATE     LAG    TERM   SINCE  VERSION  MESSAGE",
		"a   Leader    -      48113  90s    v1.0.0",
		"b   Follower  742ms  -      -      v1.0.0",
		"c   Follower  41s    -      -      v1.0.0   etcd is silent",
		"d   Standby   -      -      -      v0.9.0",
	}}, {true, []string{
		"ID  STATE     LAG    TERM   SINCE  VERSION  SCHEMA  URL             MESSAGE",
		"a   Leader    -      48113  90s    v1.0.0   3       https://a:8444",
		"b   Follower  742ms  -      -      v1.0.0   3       https://b:8444",
		"c   Follower  41s    -      -      v1.0.0   3       https://c:8444  etcd is silent",
		"d   Standby   -      -      -      v0.9.0   2       -",
	}}} {
		got := screen.Plain(&bytes.Buffer{}, 100).Lines(present.View{Wide: c.wide, Now: start}.Replicas(list))
		for i := range got {
			got[i] = strings.TrimRight(got[i], " ")
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("wide %t: %s", c.wide, diff)
		}
	}
	if tones := []describe.Tone{describe.OfReplica(list[0]), describe.OfReplica(list[1]), describe.OfReplica(list[2]), describe.OfReplica(list[3]), describe.OfReplica(api.Replica{State: api.ReplicaFollower})}; !slices.Equal(tones, []describe.Tone{describe.Good, describe.Good, describe.Bad, describe.Plain, describe.Waiting}) {
		t.Errorf("the tones are %v", tones)
	}
}
