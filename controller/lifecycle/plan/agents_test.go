package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/shared/api"
)

// drawAnyInput is a cluster or a registry.
func drawAnyInput(t *rapid.T) Input {
	if rapid.IntRange(0, 3).Draw(t, "a registry") > 0 {
		in := drawVolumes(t)
		if rapid.Bool().Draw(t, "PersistentVolumes are withdrawn") { // else they are seldom whole
			in.Params.Cluster.PersistentVolumes, in.CarriedOver.Registered, in.Withdraw = nil, true, true
		}
		return in
	}
	if rapid.Bool().Draw(t, "has a volume") {
		return withVolume(registryInput())
	}
	return registryInput()
}

// No agent is given what it does not understand; it is given all else as if it understood
// everything, and what it is not given is withheld with the reason.
func TestNoAgentIsGivenWhatItDoesNotUnderstand(t *testing.T) {
	given, withheld := map[string]int{}, map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		in := drawAnyInput(t)
		whole := Make(in)
		in.Agents = map[string]api.Agent{}
		for _, s := range in.Topology.Servers {
			if rapid.IntRange(0, 4).Draw(t, "polled") > 0 {
				sections := rapid.SliceOfDistinct(rapid.SampledFrom(append(api.Sections(), "unheardOf")), rapid.ID[string]).Draw(t, "understands")
				if rapid.Bool().Draw(t, "or all others") { // else few would have what takes several
					sections = slices.DeleteFunc(api.Sections(), func(s string) bool { return slices.Contains(sections, s) })
				}
				in.Agents[s.ID] = api.Agent{Version: "v1", Sections: sections}
			}
		}
		out := Make(in)
		storage := nodeOf(out, api.RoleStorage)
		for i, n := range out.Nodes {
			agent, known := in.Agents[n.ID]
			for _, section := range whole.Nodes[i].Config.Sections() {
				takes, has, why := !known || agent.Understands(section), slices.Contains(n.Config.Sections(), section), n.why(section)
				// What lies on storage that an old agent is not given waits for it, and so does a cluster
				// that the agent would have to make.
				waits := section == api.SectionRegistry && n.withholds(api.SectionStorage) || section == api.SectionPersistentVolumes && storage.Asked != "" ||
					section == api.SectionCluster && n.withholds(api.SectionKubernetes) || section == api.SectionControlPlane && n.withholds(api.SectionCluster)
				switch {
				case has && takes:
					given[section]++
				case has:
					t.Fatalf("%s is given %s and understands %v", n.ID, section, agent.Sections)
				case why == nil, why.NodeID != n.ID, why.Reason != api.ReasonAgentTooOld && !waits, takes && !waits:
					t.Fatalf("%s understands %v and is not given %s: %+v", n.ID, agent.Sections, section, n.Withheld)
				case !takes:
					withheld[section]++
				}
			}
			if diff := cmp.Diff(whole.Nodes[i].Config, n.Config); n.Withheld == nil && diff != "" {
				t.Fatalf("%s understands what it is asked and its document is another (-all +got):\n%s", n.ID, diff)
			}
		}
	})
	if testing.Short() { // has a fifth of the checks: too few to have seen every section
		return
	}
	for _, section := range api.Sections() {
		if given[section] == 0 || withheld[section] == 0 {
			t.Errorf("%s was given %d times and withheld %d times: let drawAnyInput make plans that have it", section, given[section], withheld[section])
		}
	}
}

func TestWhatIsWithheldFromAnOldAgentSaysWhatToDo(t *testing.T) {
	in := input()
	in.Agents = map[string]api.Agent{storageID: {Version: "v0.3.0", Sections: []string{api.SectionProxy}}}
	n := node(t, Make(in), storageID)
	if len(n.Withheld) != 1 || n.Withheld[0].Section != "storage" {
		t.Fatalf("withheld %+v, want storage", n.Withheld)
	}
	for _, part := range []string{"v0.3.0", "storage", "upgrade"} {
		if !strings.Contains(n.Withheld[0].Message, part) {
			t.Errorf("the message %q does not say %q", n.Withheld[0].Message, part)
		}
	}
	if doc := api.Reasons[n.Withheld[0].Reason]; doc.Meaning == "" || doc.Action == "" {
		t.Errorf("%s is explained by %+v", n.Withheld[0].Reason, doc)
	}
}

// The volume of a document that is withheld belongs to no node: no permit is given for it.
func TestAVolumeThatAnOldAgentIsNotGivenHasNoNode(t *testing.T) {
	in := input()
	in.Agents = map[string]api.Agent{storageID: {Version: "v0.3.0", Sections: []string{api.SectionProxy}}}
	out := Make(in)
	if len(out.Volumes) != 1 || out.Volumes[0].NodeID != "" {
		t.Errorf("volumes %+v, want one of no node", out.Volumes)
	}
}

// Asked tells one wish from another, and is the same for the same.
func TestWhatIsAskedOfAnOldAgent(t *testing.T) {
	seen := map[string]string{}
	for name, change := range map[string]func(*Input){
		"storage":         func(*Input) {},
		"another export":  func(in *Input) { in.Params.Cluster.StorageServer.Exports[0].To = []string{"10.20.0.0/24"} },
		"no proxy either": func(in *Input) { in.Agents[storageID] = api.Agent{Version: "v1"} },
		"nothing":         func(in *Input) { in.Agents[storageID] = api.ThisAgent("v1") },
	} {
		in := input()
		in.Agents = map[string]api.Agent{storageID: {Version: "v1", Sections: []string{api.SectionProxy}}}
		change(&in)
		asked := node(t, Make(in), storageID).Asked
		if again := node(t, Make(in), storageID).Asked; asked != again {
			t.Errorf("%s: %q, then %q", name, asked, again)
		}
		if (asked == "") != (name == "nothing") {
			t.Errorf("%s: asked %q", name, asked)
		}
		if other, found := seen[asked]; found {
			t.Errorf("%s and %s: both %q", name, other, asked)
		}
		seen[asked] = name
	}
}
