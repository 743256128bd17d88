package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

const oldVersion, newVersion = "1.34.4", "1.35.4"

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// walk is a cluster that is planned again and again, with nodes that report.
type walk struct {
	failer
	in  Input
	out Output
	// drained are those that the owner has reported as drained.
	drained []string
	// proven has, for each server, the version that it was last healthy with.
	proven map[string]string
}

// id is the id of the master or worker of a name, such as m2 or w1.
func id(name string) string {
	family := map[byte]int{'m': 2, 'w': 3}[name[0]]
	return fmt.Sprintf("%08d-0000-4000-8000-%012s", family, name[1:])
}

// shortName is the name of a server by its id.
func shortName(id string) string {
	return map[string]string{"00000002": "m", "00000003": "w"}[id[:8]] + strings.TrimLeft(id[len(id)-12:], "0")
}

// newWalk is a cluster of the old version whose servers are all members, and are to be upgraded.
func newWalk(t failer, masters, workers int) *walk {
	t.Helper()
	in := membersInput()
	in.Params.Cluster.Kubernetes = &params.Kubernetes{Version: oldVersion}
	in.Topology.Servers, in.Nodes = nil, map[string]Observed{}
	w := &walk{failer: t, in: in, proven: map[string]string{}}
	for i := range masters {
		w.appear(fmt.Sprint("m", i+1))
	}
	for i := range workers {
		w.appear(fmt.Sprint("w", i+1))
	}
	w.plan()
	for range 3 {
		w.report(w.names()...)
	}
	if w.told(oldVersion) != strings.Join(w.names(), " ") || len(w.withheld()) > 0 {
		t.Fatalf("at first %s are told, withheld %v", w.told(oldVersion), w.withheld())
	}
	w.in.Params.Cluster.Kubernetes.Version = newVersion
	w.plan()
	return w
}

// appear adds a server that has enrolled.
func (w *walk) appear(name string) {
	point := map[byte]string{'m': "masterNode_CP1", 'w': "workerNode_CP2"}[name[0]]
	w.in.Topology.Servers = append(w.in.Topology.Servers, api.Server{ID: id(name), Name: name,
		ConnectionPoints: []api.ConnectionPoint{{Name: point, Addresses: []string{"10.10.0." + name[1:]}}}})
	w.in.Nodes[id(name)] = Observed{Enrolled: true, Heard: true, NotJoined: name[0] == 'm'}
}

// vanish removes a server.
func (w *walk) vanish(name string) {
	w.in.Topology.Servers = slices.DeleteFunc(w.in.Topology.Servers, func(s api.Server) bool { return s.ID == id(name) })
	delete(w.in.Nodes, id(name))
}

func (w *walk) names() (list []string) {
	for _, n := range w.out.Nodes {
		list = append(list, shortName(n.ID))
	}
	return list
}

func (w *walk) see(name string, change func(*Observed)) {
	seen := w.in.Nodes[id(name)]
	change(&seen)
	w.in.Nodes[id(name)] = seen
}

// plan plans, and wants it to be what may follow the plan before. What a node has said of a document
// that is changed counts no longer.
func (w *walk) plan() {
	w.Helper()
	before := w.out
	w.out = Make(w.in)
	if len(before.Nodes) > 0 {
		w.check(before)
	}
	digests := map[string]string{}
	for _, n := range before.Nodes {
		digests[n.ID] = n.Config.Digest()
	}
	for _, n := range w.out.Nodes {
		w.see(shortName(n.ID), func(seen *Observed) {
			if n.Config.Kubernetes != nil {
				seen.Version = n.Config.Kubernetes.Version
			}
			if n.Config.Digest() != digests[n.ID] {
				seen.Healthy, seen.Current, seen.Drained, seen.Member, seen.NotJoined = false, false, false, false, false
				if n.ID == w.out.CarriedOver.Owner {
					w.drained = nil
				}
			}
		})
	}
	w.in.CarriedOver = w.out.CarriedOver
	w.in.Cluster.CACertificateHash = hash
}

// check wants that no member is told a lower version; that what is told is drained and the wave
// before over; that no worker is told a version, or joins with it, before all masters have proven it;
// and that no master is told a version while another that stays has not proven its own.
func (w *walk) check(before Output) {
	w.Helper()
	members := w.out.CarriedOver.Members
	for _, n := range w.out.Nodes {
		was := w.in.Nodes[n.ID]
		if n.Config.Kubernetes == nil || n.Config.Kubernetes.Version == was.Version || len(before.CarriedOver.Members) == 0 || len(members) == 0 {
			continue
		}
		now := n.Config.Kubernetes.Version
		for _, m := range members {
			if n.Role == api.RoleWorker && older(w.proven[m], now) {
				w.Fatalf("%s is told %s, and master %s has proven %s", n.Name, now, shortName(m), w.proven[m])
			}
		}
		if was.Version == "" {
			continue
		}
		if older(now, was.Version) {
			w.Fatalf("%s is told %s after %s", n.Name, now, was.Version)
		}
		if n.Role == api.RoleMaster && !slices.Contains(members, n.ID) {
			continue
		}
		if !slices.Contains(w.drained, n.ID) || before.CarriedOver.Owner != w.out.CarriedOver.Owner {
			w.Fatalf("%s is told %s, and %v are drained", n.Name, now, w.drained)
		}
		for _, m := range w.out.Nodes {
			seen := w.in.Nodes[m.ID]
			if m.Role != api.RoleMaster || m.ID == n.ID || !slices.Contains(members, m.ID) {
				continue
			}
			if n.Role == api.RoleMaster && !slices.Contains(w.in.Leaving, m.ID) && (!seen.Heard || !seen.Current && (!seen.Healthy || !older(seen.Version, now))) {
				w.Fatalf("%s is told %s, and %s is %+v", n.Name, now, m.Name, seen)
			}
		}
	}
	if renews := w.out.CarriedOver.Renews; renews != "" && len(w.out.CarriedOver.Wave) > 0 {
		w.Fatalf("%s renews its certificates while %v are upgraded", renews, w.out.CarriedOver.Wave)
	}
}

// report lets nodes report that they are what their documents say, one after another, and plans after
// each report as the controller does.
func (w *walk) report(names ...string) {
	w.Helper()
	for _, name := range names {
		config := node2(w.out, id(name)).Config
		w.see(name, func(seen *Observed) {
			seen.Heard, seen.Anew, seen.NotJoined = true, false, false
			seen.Member = name[0] == 'm' && config.Cluster != nil
			seen.Current = config.Kubernetes != nil && config.Cluster != nil
			seen.Healthy = config.ControlPlane != nil
			seen.Drained = config.ClusterDrains != nil
		})
		if config.ClusterDrains != nil {
			w.drained = w.drains()
		}
		if seen := w.in.Nodes[id(name)]; seen.Current {
			w.proven[id(name)] = seen.Version
		}
		w.plan()
	}
}

func node2(out Output, id string) *Node {
	return &out.Nodes[slices.IndexFunc(out.Nodes, func(n Node) bool { return n.ID == id })]
}

// drains are the ids that the owner is asked to drain.
func (w *walk) drains() (list []string) {
	for _, n := range w.out.Nodes {
		if n.Config.ClusterDrains != nil {
			for _, m := range n.Config.ClusterDrains.Members {
				list = append(list, m.ServerID)
			}
		}
	}
	return list
}

// told are the names of those whose documents say the version.
func (w *walk) told(version string) string {
	var list []string
	for _, n := range w.out.Nodes {
		if n.Config.Kubernetes != nil && n.Config.Kubernetes.Version == version {
			list = append(list, shortName(n.ID))
		}
	}
	return strings.Join(list, " ")
}

// withheld is what is withheld from each node, with whom it waits for.
func (w *walk) withheld() map[string]string {
	all := map[string]string{}
	for _, n := range w.out.Nodes {
		for _, each := range n.Withheld {
			all[n.Name+" "+each.Section] = each.Reason + " " + each.Message
			if each.WaitsFor != "" && !strings.Contains(each.Message, each.WaitsFor) {
				w.Errorf("%+v does not say whom it waits for", each)
			}
		}
	}
	return all
}

// now is the wave and those who are told the new version.
func (w *walk) now() string {
	var wave []string
	for _, id := range w.drains() {
		wave = append(wave, shortName(id))
	}
	return fmt.Sprintf("%s | %s", strings.Join(wave, " "), w.told(newVersion))
}

func (w *walk) want(now string) {
	w.Helper()
	if got := w.now(); got != now {
		w.Fatalf("wave | told is %q, want %q; withheld %v", got, now, w.withheld())
	}
}

// wantWaits wants the node to wait with a section, and the message to say this.
func (w *walk) wantWaits(name, section, says string) {
	w.Helper()
	if got := w.withheld()[name+" "+section]; !strings.HasPrefix(got, api.ReasonWaitingForTurn) || !strings.Contains(got, says) {
		w.Fatalf("%s of %s is withheld with %q, want it to say %q", section, name, got, says)
	}
}

func TestAnUpgradeGoesThroughTheMembersInWaves(t *testing.T) {
	w := newWalk(t, 3, 2)
	w.want("m1 | ")
	want := map[string]string{}
	for name, until := range map[string]string{
		"m1": "once its Node is drained by m1 (" + id("m1") + ")", "m2": "after m1 (" + id("m1") + ")", "m3": "after m2 (" + id("m2") + ")", "w1": "after m3 (" + id("m3") + ")", "w2": "after w1 (" + id("w1") + ")",
	} {
		want[name+" kubernetes"] = "WaitingForTurn is upgraded from 1.34.4 to 1.35.4 " + until
	}
	if diff := cmp.Diff(want, w.withheld()); diff != "" {
		t.Errorf("withheld (-want +got):\n%s", diff)
	}
	for _, step := range []struct{ reports, then string }{
		{"m2 m3 w1 w2", "m1 | "}, // it is not theirs to say that a Node is drained
		{"m1", "m1 | m1"},
		{"m2 m3 w1 w2", "m1 | m1"},
		{"m1", "m2 | m1"}, // healthy again
		{"m1", "m2 | m1 m2"},
		{"m1 m3", "m2 | m1 m2"},
		{"m2", "m3 | m1 m2"},
		{"m1", "m3 | m1 m2 m3"},
		{"m3", "w1 | m1 m2 m3"},
		{"m1", "w1 | m1 m2 m3 w1"},
		{"w1", "w2 | m1 m2 m3 w1"},
		{"m1", "w2 | m1 m2 m3 w1 w2"},
		{"w2", " | m1 m2 m3 w1 w2"},
	} {
		w.report(strings.Fields(step.reports)...)
		w.want(step.then)
	}
	if held := w.withheld(); len(held) > 0 {
		t.Errorf("in the end %v is withheld", held)
	}
}

// All else that is new in the section reaches a member at once.
func TestAMemberThatWaitsHasTheRestOfItsSection(t *testing.T) {
	w := newWalk(t, 1, 1)
	w.in.Params.Cluster.Kubernetes.ProgramPaths, w.in.Files = programPaths[:1], map[string]File{programPaths[0]: {SHA256: "cc", SizeBytes: 3}}
	w.plan()
	if k := node2(w.out, id("w1")).Config.Kubernetes; k == nil || k.Version != oldVersion || len(k.ProgramArchives) != 1 {
		t.Errorf("the worker has %+v", k)
	}
}

func TestATenthOfTheWorkersIsUpgradedAtATime(t *testing.T) {
	w := newWalk(t, 1, 25)
	w.report("m1", "m1")
	w.want("w1 w2 | m1")
	w.report("m1")
	w.want("w1 w2 | m1 w1 w2")
	w.report("w2")
	w.want("w1 w2 | m1 w1 w2")
	w.wantWaits("w4", "kubernetes", "after w2")
	w.wantWaits("w25", "kubernetes", "after w24")
	w.report("w1")
	w.want("w3 w4 | m1 w1 w2")
}

// Another master that speaks for the cluster drains the Node again, and tells the member.
func TestAnUpgradeGoesOnWithAnotherOwner(t *testing.T) {
	w := newWalk(t, 3, 1)
	w.report("m1", "m1")
	w.want("m2 | m1")
	w.see("m1", func(seen *Observed) { seen.Heard = false })
	w.plan()
	if owner := w.out.CarriedOver.Owner; owner != id("m2") {
		t.Fatalf("%s speaks for the cluster", owner)
	}
	w.want("m2 | m1")
	w.report("m2")
	w.want("m2 | m1")
	w.wantWaits("m2", "kubernetes", "once m1 ("+id("m1")+") is a healthy master")
	w.report("m1") // it is back
	w.want("m2 | m1 m2")
	w.report("m2")
	w.want("m3 | m1 m2")
	w.report("m2", "m3")
	w.want("w1 | m1 m2 m3")
	w.see("m2", func(seen *Observed) { seen.Heard = false })
	w.plan() // a worker's upgrade needs no quorum
	if owner := w.out.CarriedOver.Owner; owner != id("m1") {
		t.Fatalf("%s speaks for the cluster", owner)
	}
	w.want("w1 | m1 m2 m3")
	w.report("m1")
	w.want("w1 | m1 m2 m3 w1")
}

// What an owner has reported of the wave before is no proof for this one.
func TestANewOwnerHasToDrainItself(t *testing.T) {
	w := newWalk(t, 2, 0)
	w.see("m2", func(seen *Observed) { seen.Drained = true })
	w.see("m1", func(seen *Observed) { seen.Heard = false })
	w.plan()
	w.want("m1 | ")
}

func TestAMemberThatIsNotWellStopsTheUpgrade(t *testing.T) {
	w := newWalk(t, 3, 2)
	w.report("m1")
	w.want("m1 | m1")
	for range 3 {
		w.report("m2", "m3", "w1", "w2")
	}
	w.want("m1 | m1")
	w.report("m1", "m1", "m2") // m3 is next
	w.want("m3 | m1 m2")
	w.see("m2", func(seen *Observed) { seen.Current = false })
	w.report("m1")
	w.want("m3 | m1 m2")
	w.report("m2")
	w.want("m3 | m1 m2 m3")
	w.see("m1", func(seen *Observed) { seen.Current = false })
	w.report("m3")
	w.want(" | m1 m2 m3") // m3 takes Pods again, and nothing begins
	w.wantWaits("w1", "kubernetes", "once m1 ("+id("m1")+") is a healthy master")
	w.report("m1")
	w.want("w1 | m1 m2 m3")
}

// Programs of the next version that are installed before a master's turn stop nobody.
func TestAMasterMayHaveTheNextProgramsAlready(t *testing.T) {
	w := newWalk(t, 2, 0)
	w.see("m2", func(seen *Observed) { seen.Current = false })
	w.report("m1", "m1")
	w.want("m2 | m1")
}

// A new server joins with the new version once all masters have it: its kubelet must not be newer
// than an API server.
func TestServersThatComeDuringAnUpgrade(t *testing.T) {
	w := newWalk(t, 2, 1)
	w.appear("w2")
	w.appear("m3")
	w.plan()
	for _, name := range []string{"w2", "m3"} {
		if c := node2(w.out, id(name)).Config; c.Kubernetes != nil || c.Cluster != nil || c.ControlPlane != nil {
			t.Fatalf("%s has %v", name, c.Sections())
		}
		for _, section := range []string{"kubernetes", "cluster"} {
			w.wantWaits(name, section, "joins the cluster with 1.35.4 after m2 ("+id("m2")+"), which is upgraded first")
		}
	}
	w.wantWaits("m3", "controlPlane", "m2 ("+id("m2")+")")
	w.report("m1", "m2", "m1", "m1")
	w.want("m2 | m1 m2")
	w.report("m2")
	w.want("w1 | m1 m2 m3 w2")
	for _, name := range []string{"w2", "m3"} {
		if c := node2(w.out, id(name)).Config; c.Kubernetes == nil || c.Cluster == nil {
			t.Errorf("%s has %v", name, c.Sections())
		}
	}
	w.report("m3", "w2", "m1", "m2", "w1")
	w.want(" | m1 m2 m3 w1 w2")
}

// A master that fails in its upgrade is healed like any other: the upgrade goes on without it.
func TestAMemberIsHealedDuringItsUpgrade(t *testing.T) {
	w := newWalk(t, 3, 0)
	w.report("m1", "m1", "m1")
	w.want("m2 | m1 m2")
	w.in.Leaving = []string{id("m2")}
	w.plan()
	w.want("m3 | m1 m2")
	w.vanish("m2")
	w.in.Leaving = nil
	w.appear("m4")
	w.plan()
	w.report("m1")
	w.want("m3 | m1 m3")
	w.wantWaits("m4", "cluster", "after m3")
	w.report("m3")
	w.want(" | m1 m3 m4")
}

// A master that leaves has an API server until it is gone, which no kubelet may be newer than.
func TestWorkersWaitForAnOldMasterThatLeaves(t *testing.T) {
	w := newWalk(t, 3, 1)
	w.report("m1", "m1", "m1", "m2")
	w.want("m3 | m1 m2")
	w.in.Leaving = []string{id("m3")}
	w.appear("w2")
	w.plan()
	w.report("m1")
	w.want(" | m1 m2")
	w.wantWaits("w1", "kubernetes", "is upgraded from 1.34.4 to 1.35.4 once m3 ("+id("m3")+") has left the cluster")
	w.wantWaits("w2", "kubernetes", "joins the cluster with 1.35.4 once m3 ("+id("m3")+") has left the cluster")
	w.in.Leaving = nil
	w.report("m1")
	w.report("m1")
	w.want("m3 | m1 m2 m3")
	wants := func(now string) {
		t.Helper()
		w.plan()
		w.want(now)
		w.wantWaits("w1", "kubernetes", "m3")
		w.wantWaits("w2", "kubernetes", "m3")
	}
	w.in.Leaving = []string{id("m3")} // it fails in its upgrade
	wants(" | m1 m2 m3")
	w.in.Leaving = nil
	w.report("m1")
	wants(" | m1 m2 m3")
	w.wantWaits("w2", "kubernetes", "once m3 ("+id("m3")+") is a healthy master")
	w.in.Leaving = []string{id("m3")}
	wants(" | m1 m2 m3")
	w.vanish("m3")
	w.in.Leaving = nil
	w.report("m1")
	w.want("w1 | m1 m2 w2")
	w.report("m1")
	w.want("w1 | m1 m2 w1 w2")
}

// A master that was told the old version and has not joined yet joins with the new one.
func TestAMasterThatHasNotJoinedIsToldTheNewVersion(t *testing.T) {
	w := newWalk(t, 1, 0)
	w.in.Params.Cluster.Kubernetes.Version = oldVersion
	w.appear("m2")
	w.plan()
	w.report("m1")
	if told := w.told(oldVersion); told != "m1 m2" {
		t.Fatalf("%s are told the old version", told)
	}
	w.in.Params.Cluster.Kubernetes.Version = newVersion
	w.plan()
	w.wantWaits("m2", "kubernetes", "after m1")
	w.report("m1", "m1", "m1")
	w.want(" | m1 m2")
	w.report("m2")
	if waits := w.withheld(); len(waits) > 0 {
		t.Error(waits)
	}
}

// The store of an older controller has no MasterVersions: a master at its turn may not have the version yet.
func TestAMasterAtItsTurnWithoutAVersionIsOld(t *testing.T) {
	w := newWalk(t, 1, 0)
	w.report("m1")
	w.want("m1 | m1")
	w.in.CarriedOver.MasterVersions = nil
	w.appear("w1")
	w.plan()
	w.wantWaits("w1", "kubernetes", "after m1")
}

func TestWorkersDoNotWaitForAProvenMasterThatLeaves(t *testing.T) {
	w := newWalk(t, 3, 1)
	w.report("m1", "m1", "m1", "m2", "m1", "m1", "m3")
	w.want("w1 | m1 m2 m3")
	w.in.Leaving = []string{id("m3")}
	w.see("m3", func(seen *Observed) { seen.Heard, seen.Current, seen.Healthy = false, false, false })
	w.appear("w2")
	w.report("m1", "m1")
	w.want("w1 | m1 m2 m3 w1 w2")
}

func TestACancelledUpgradeStopsAndGoesOn(t *testing.T) {
	w := newWalk(t, 3, 1)
	pause := func(version string) { w.in.CarriedOver.Paused = version; w.plan() }
	pause(newVersion)
	w.want(" | ") // the owner takes Pods again
	w.appear("w2")
	w.plan()
	w.report(w.names()...)
	w.want(" | ")
	if got := w.told(oldVersion); got != "m1 m2 m3 w1 w2" || len(w.withheld()) > 0 {
		t.Fatalf("%s are told the old version, withheld %v", got, w.withheld())
	}
	if list := w.out.Warnings; len(list) != 1 || list[0].Pointer != "/additionalParams/k8s_cluster_installation_param/kubernetes/version" || !strings.Contains(list[0].Message, "5 members stay") {
		t.Errorf("warnings %+v", list)
	}
	pause("")
	w.report(w.names()...)
	w.want("m1 | m1")
	pause(newVersion)
	w.want("m1 | m1") // what has begun ends
	w.appear("w3")
	w.report("m1", "m2", "m3", "w1")
	w.want(" | m1")
	w.wantWaits("w3", "cluster", "after m3 ("+id("m3")+"), which is upgraded first; the upgrade was cancelled: post MODIFY_INFO")
	if held := w.withheld(); len(held) != 2 {
		t.Errorf("members that stay wait: %v", held)
	}
	pause("")
	for range 20 {
		w.report(w.names()...)
	}
	w.want(" | m1 m2 m3 w1 w2 w3")
	pause(newVersion)
	if got := w.out.CarriedOver.Paused; got != "" {
		t.Errorf("nothing is behind, and the upgrade to %s is paused", got)
	}
	w.in.CarriedOver.Paused = oldVersion
	w.in.Params.Cluster.Kubernetes.Version = "1.35.5"
	w.plan()
	w.want("m1 | m1 m2 m3 w1 w2 w3") // another version than the one that was cancelled
}

// Masters get a version that is given meanwhile before workers do.
func TestAnotherVersionDuringAnUpgrade(t *testing.T) {
	w := newWalk(t, 2, 2)
	for range 3 {
		w.report("m1", "m2")
	}
	w.report("m1")
	w.want("w1 | m1 m2 w1")
	w.in.Params.Cluster.Kubernetes.Version = "1.35.5"
	w.plan()
	w.want("m1 | m1 m2 w1")
	for range 20 {
		w.report(w.names()...)
	}
	if got := w.told("1.35.5"); got != "m1 m2 w1 w2" {
		t.Errorf("1.35.5 is told to %s", got)
	}
	w.in.Params.Cluster.Kubernetes.Version = oldVersion // only an older controller would accept it
	w.plan()
	if got := w.told("1.35.5"); got != "m1 m2 w1 w2" {
		t.Errorf("after a lower version 1.35.5 is told to %s", got)
	}
}

func TestWithoutAClusterNobodyWaits(t *testing.T) {
	w := newWalk(t, 2, 1)
	for _, name := range []string{"m1", "m2"} {
		w.see(name, func(seen *Observed) { seen.Member, seen.NotJoined, seen.Anew = false, true, true })
	}
	w.plan()
	w.want(" | m1 m2 w1")
}

// A server that has never enrolled has no Node, whatever was meant for it.
func TestAServerThatHasNeverEnrolledHoldsNothingUp(t *testing.T) {
	w := newWalk(t, 1, 2)
	w.see("w1", func(seen *Observed) { *seen = Observed{} })
	w.plan()
	w.see("w1", func(seen *Observed) { *seen = Observed{} })
	w.wantWaits("w1", "cluster", "after m1")
	w.report("m1", "m1")
	w.want("w2 | m1 w1")
}

// An agent that does not know of drains cannot upgrade Kubernetes either.
func TestAnAgentThatCannotUpgradeHoldsItsTurnUp(t *testing.T) {
	old := api.ThisAgent("v0.1.0")
	old.Sections = slices.DeleteFunc(old.Sections, func(s string) bool { return s == api.SectionClusterDrains })
	w := newWalk(t, 1, 1)
	w.in.Agents = map[string]api.Agent{id("w1"): old}
	w.report("m1", "m1", "m1")
	w.want(" | m1")
	n := *node2(w.out, id("w1"))
	if held := n.why(api.SectionKubernetes); held == nil || held.Reason != api.ReasonAgentTooOld || held.WaitsFor != "" || !strings.Contains(held.Message, "v0.1.0") || !strings.Contains(held.Message, "once the agent of w1") {
		t.Fatalf("withheld %+v", n.Withheld)
	}
	w.in.Agents[id("w1")] = api.ThisAgent("v0.2.0")
	w.plan()
	w.want("w1 | m1")
}

// One master at a time renews its certificates, while the others are healthy and nobody is upgraded.
func TestMastersRenewTheirCertificatesOneByOne(t *testing.T) {
	w := newWalk(t, 3, 0)
	w.in.CarriedOver.Paused = newVersion
	w.plan()
	due := func(is bool, names ...string) {
		for _, name := range names {
			w.see(name, func(seen *Observed) { seen.RenewalDue = is })
		}
	}
	want := func(name string) {
		t.Helper()
		var got []string
		for _, n := range w.out.Nodes {
			if n.Config.ControlPlane.RenewCertificates {
				got = append(got, shortName(n.ID))
			}
		}
		if strings.Join(got, " ") != name {
			t.Fatalf("it is the turn of %v, want %q", got, name)
		}
	}
	w.report("m1", "m2", "m3")
	due(true, "m1", "m2", "m3")
	w.see("m2", func(seen *Observed) { seen.Healthy = false })
	w.plan()
	want("m2") // what it lacks may be that, and the others are healthy
	w.see("m2", func(seen *Observed) { seen.Heard = false })
	w.plan()
	want("m1") // a lost one holds nobody up
	due(false, "m1")
	w.plan()
	want("m1") // it is not healthy yet
	w.report("m1")
	want("m3")
	w.see("m1", func(seen *Observed) { seen.Heard = false })
	w.report("m3")
	want("m3") // it goes on, however the others are
	due(false, "m3")
	w.report("m3")
	want("")
	due(true, "m3")
	w.plan()
	want("") // etcd has no quorum without the other two
	w.report("m1", "m2", "m3")
	want("m3")
	w.in.CarriedOver.Paused = ""
	w.plan()
	w.want(" | ")
	w.wantWaits("m3", "kubernetes", "once m3 ("+id("m3")+") has renewed its certificates")
	due(false, "m2", "m3")
	w.report("m3") // which speaks for the cluster since m1 was lost
	w.want("m3 | ")
	due(true, "m1", "m2")
	w.report("m1", "m2")
	want("")
}

// Whatever happens meanwhile, no upgrade does what walk.check refuses, and once all members are well
// it ends.
func TestNoOrderOfEventsHurtsAClusterThatIsUpgraded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWalk(t, rapid.IntRange(1, 3).Draw(t, "masters"), rapid.IntRange(0, 12).Draw(t, "workers"))
		next := 20
		any := func() string { return rapid.SampledFrom(w.names()).Draw(t, "node") }
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			switch rapid.SampledFrom([]string{"report", "report", "report", "report", "fail", "lose", "pause", "go on", "version", "come", "leave", "due"}).Draw(t, "event") {
			case "report":
				w.report(any())
			case "fail":
				w.see(any(), func(seen *Observed) {
					seen.Current, seen.Healthy = false, rapid.Bool().Draw(t, "its control plane is healthy")
				})
			case "lose":
				w.see(any(), func(seen *Observed) { seen.Heard = false })
			case "pause":
				w.in.CarriedOver.Paused = w.in.Params.Cluster.Kubernetes.Version
			case "go on":
				w.in.CarriedOver.Paused = ""
			case "version":
				w.in.Params.Cluster.Kubernetes.Version = rapid.SampledFrom([]string{newVersion, "1.35.5", "1.35.6"}).Draw(t, "version")
			case "come":
				next++
				w.appear(fmt.Sprint(rapid.SampledFrom([]string{"m", "w"}).Draw(t, "role"), next))
			case "leave":
				if name := any(); len(w.out.CarriedOver.Members) > 1 && len(w.in.Leaving) == 0 || name[0] == 'w' {
					w.in.Leaving = []string{id(name)}
				} else {
					w.in.Leaving = nil
				}
			case "due":
				w.see(any(), func(seen *Observed) { seen.RenewalDue = !seen.RenewalDue })
			}
			w.plan()
		}
		w.in.CarriedOver.Paused, w.in.Leaving = "", nil
		for range 4 * len(w.names()) {
			for _, name := range w.names() {
				w.see(name, func(seen *Observed) { seen.RenewalDue = false })
				w.report(name)
			}
		}
		behind := slices.DeleteFunc(w.names(), func(name string) bool {
			return !older(w.in.Nodes[id(name)].Version, w.in.Params.Cluster.Kubernetes.Version)
		})
		if len(behind) > 0 || len(w.withheld()) > 0 || len(w.out.CarriedOver.Wave) > 0 {
			t.Fatalf("it does not end: %v are behind; %v, withheld %v", behind, w.out.CarriedOver, w.withheld())
		}
	})
}
