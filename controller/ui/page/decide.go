package page

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/shared/api"
)

// decision is something that goes no further until an operator acts.
type decision struct {
	stake stake
	Badge badge
	Title string
	// Objects are what it is about; Rest is how many more there are, at RestPath.
	Objects  []name
	Rest     int
	RestPath string
	// Message is what one node says, Meaning what was found, Action what to do.
	Message, Meaning, Action string
	Commands                 []command
}

// stake is what a decision is about, what is worth most first.
type stake int

const (
	ofDisks stake = iota
	ofRestored
	ofOperations
	ofLost
	ofReasons
	ofOthers
)

// fewObjects is how many objects and commands of one decision are shown.
const fewObjects = 5

// about says which objects it is about.
func (d *decision) about(objects []name, restPath string) {
	d.Objects, d.Rest = few(objects, fewObjects)
	d.RestPath = restPath
}

// decisions is what an operator must decide, by what is at stake.
func (o Overview) decisions() []decision {
	var list []decision
	list = append(list, o.unconfirmed()...)
	list = append(list, volumeDecisions(o.Volumes, o.Nodes)...)
	list = append(list, nodeDecisions(o.Nodes, o.Volumes)...)
	list = append(list, lost(o.Nodes)...)
	list = append(list, failed(o.Operations)...)
	list = append(list, rollout(o.Rollout)...)
	list = append(list, missingFiles(o.Instances)...)
	slices.SortStableFunc(list, func(a, b decision) int { return cmp.Compare(a.stake, b.stake) })
	return list
}

func (o Overview) unconfirmed() (list []decision) {
	var objects []name
	var commands []command
	for _, i := range o.Instances {
		if i.Unconfirmed {
			objects = append(objects, instanceName(i.Name, i.ID))
			commands = append(commands, hitchctl("trust this instance again", "confirm", "instance", i.ID))
		}
	}
	if len(objects) == 0 {
		return nil
	}
	d := decision{stake: ofRestored, Badge: badge{"bad", "Restored"}, Title: "Restored from a backup, not confirmed",
		Meaning: "the nodes of these instances are refused until an operator confirms them",
		Action:  "revoke first what was revoked after the backup, apply the present topology, then confirm; `hitchctl confirm instance` shows what will be trusted"}
	d.about(objects, PathInstances)
	if len(commands) > fewObjects {
		commands = []command{hitchctl("trust all of them again", "confirm", "instance", "--all")}
	}
	d.Commands = commands
	return []decision{d}
}

// volumeDecisions are those about the content of disks.
func volumeDecisions(volumes []api.Volume, nodes []api.Node) (list []decision) {
	interrupted := decision{Badge: badge{"bad", "Interrupted"}, Title: "A format was interrupted"}
	restored := decision{Badge: badge{"wait", "Restored"}, Title: "Restored as not formatted",
		Meaning: "the volume may have been formatted after the backup was taken, so it is not formatted without an operator",
		Action:  "`hitchctl volume adopt` keeps what it holds, `hitchctl volume reformat` erases it"}
	var objects, objectsRestored []name
	for _, v := range volumes {
		switch {
		case v.PermitState == api.PermitInterrupted && !v.ReformatRequested:
			_, interrupted.Meaning = describe.Permit(v)
			objects = append(objects, volumeName(v.ID))
			interrupted.Commands = append(interrupted.Commands, volumeCommands(v, nodes)...)
		case v.Unconfirmed && v.NodeID != "" && !v.ReformatRequested:
			objectsRestored = append(objectsRestored, volumeName(v.ID))
			restored.Commands = append(restored.Commands, volumeCommands(v, nodes)...)
		}
	}
	for _, with := range []struct {
		decision
		objects []name
		state   string
	}{{interrupted, objects, string(api.PermitInterrupted)}, {restored, objectsRestored, ""}} {
		if len(with.objects) > 0 {
			d := with.decision
			d.about(with.objects, withQuery(PathVolumes, map[string][]string{"permit": {with.state}}))
			d.Commands, _ = few(d.Commands, fewObjects)
			destroyersLast(d.Commands)
			list = append(list, d)
		}
	}
	return list
}

// volumeCommands keep the filesystem that a volume contains, if one is known, or erase it.
func volumeCommands(v api.Volume, nodes []api.Node) (list []command) {
	if filesystem := adoptable(v, nodes); filesystem != "" {
		list = append(list, hitchctl("keep the filesystem with this UUID", "volume", "adopt", v.ID, "--filesystem-uuid", filesystem))
	}
	return append(list, destroys(hitchctl("erase the volume: all its data is lost", "volume", "reformat", v.ID)))
}

// adoptable is the UUID of the filesystem on a volume that can be kept: what its node has found
// there; else the one that a format has made that is not known to have ended. "" for none.
func adoptable(v api.Volume, nodes []api.Node) string {
	for _, n := range nodes {
		if n.ID != v.NodeID {
			continue
		}
		for _, c := range describe.PresentConditions(n) {
			for _, a := range c.Adoptable {
				if a.VolumeID == v.ID {
					return a.FilesystemUUID
				}
			}
		}
	}
	if v.PermitState == api.PermitInterrupted || v.Unconfirmed {
		return v.FilesystemUUID
	}
	return ""
}

// operatorsReasons are those that pass without anybody only if somebody else gives way.
var operatorsReasons = []api.Reason{api.ReasonInUse, api.ReasonEvictionBlocked, api.ReasonUnmanagedPods, api.ReasonStuckTerminating}

// decides reports whether a reason needs an operator.
func decides(r api.Reason) bool {
	return api.Reasons[r].Final || slices.Contains(operatorsReasons, r)
}

// nodeDecisions are the reasons of nodes that no waiting mends, each once. A format that was
// interrupted is the decision about a volume.
func nodeDecisions(nodes []api.Node, volumes []api.Volume) (list []decision) {
	byReason, messages := map[api.Reason][]name{}, map[api.Reason]string{}
	for _, n := range nodes {
		if n.State == api.NodeRevoked {
			continue
		}
		var reasons []api.Reason
		add := func(r api.Reason, message string) {
			reasons, messages[r] = append(reasons, r), cmp.Or(messages[r], message)
		}
		for _, c := range describe.Conditions(n) {
			if c.Status == api.ConditionFalse {
				add(c.Reason, c.Message)
			}
		}
		for _, w := range n.Withheld {
			add(w.Reason, w.Message)
		}
		slices.Sort(reasons)
		for _, r := range slices.Compact(reasons) {
			if decides(r) {
				byReason[r] = append(byReason[r], nodeName(n.Name, n.ID))
			}
		}
	}
	for reason, objects := range byReason {
		d := decisionOf(reason)
		d.about(objects, withQuery(PathNodes, map[string][]string{"text": {reason}}))
		if len(objects) == 1 {
			d.Message = messages[reason]
		}
		if reason == api.ReasonForeignData {
			d.stake = ofDisks
			d.Commands = foreignCommands(objects, nodes, volumes)
		}
		list = append(list, d)
	}
	if slices.ContainsFunc(volumes, func(v api.Volume) bool { return v.PermitState == api.PermitInterrupted }) {
		list = slices.DeleteFunc(list, func(d decision) bool { return d.Title == api.ReasonFormatInterrupted })
	}
	slices.SortFunc(list, func(a, b decision) int {
		return cmp.Or(cmp.Compare(len(byReason[b.Title]), len(byReason[a.Title])), strings.Compare(a.Badge.Mark, b.Badge.Mark), strings.Compare(a.Title, b.Title))
	})
	return list
}

// The badges of a reason: no waiting mends it, or waiting may.
var stopped, mayPass = badge{"bad", "Stopped"}, badge{"wait", "Waiting"}

// decisionOf is what a reason means and what to do about it.
func decisionOf(r api.Reason) decision {
	doc := api.Reasons[r]
	d := decision{stake: ofReasons, Badge: mayPass, Title: r, Meaning: doc.Meaning, Action: doc.Action}
	if doc.Final {
		d.Badge = stopped
	}
	return d
}

// foreignCommands decide about the volumes of these nodes that nodehitch has not formatted.
func foreignCommands(of []name, nodes []api.Node, volumes []api.Volume) (commands []command) {
	for _, v := range volumes {
		of := slices.ContainsFunc(of, func(n name) bool { return n.Full == v.NodeID })
		if of && v.PermitState == api.PermitNone && !v.ReformatRequested {
			commands = append(commands, volumeCommands(v, nodes)...)
		}
	}
	commands, _ = few(commands, 2*fewObjects)
	return destroyersLast(commands)
}

func lost(nodes []api.Node) []decision {
	var objects []name
	for _, n := range nodes {
		if n.State == api.NodeLost {
			objects = append(objects, nodeName(n.Name, n.ID))
		}
	}
	if len(objects) == 0 {
		return nil
	}
	d := decision{stake: ofLost, Badge: badge{"bad", "Lost"}, Title: "No longer calling", Meaning: describe.NodeState(api.NodeLost)}
	d.about(objects, withQuery(PathNodes, map[string][]string{"state": {string(api.NodeLost)}}))
	return []decision{d}
}

// failed are the operations that failed and that nothing has come after.
func failed(operations []api.Operation) (list []decision) {
	latest := map[string]api.Operation{}
	for _, o := range operations {
		if o.Sequence > latest[o.VnfInstanceID].Sequence {
			latest[o.VnfInstanceID] = o
		}
	}
	for _, o := range operations {
		if o.State == api.Failed && latest[o.VnfInstanceID].Sequence == o.Sequence {
			list = append(list, decision{stake: ofOperations, Badge: progress(o, operations), Title: operationTitle(o), Objects: []name{operationName(o)},
				Meaning: describe.Operation(o), Action: "remove the cause, then repeat the operation"})
		}
	}
	shown, rest := few(list, fewObjects)
	if rest > 0 {
		shown[fewObjects-1].Rest = rest
		shown[fewObjects-1].RestPath = withQuery(PathOperations, map[string][]string{"state": {string(api.Failed)}})
	}
	return shown
}

func operationName(o api.Operation) name {
	return name{describe.ShortOperation(o), o.ID, operationPath(o)}
}

func rollout(r api.AgentRollout) []decision {
	d := decision{stake: ofOthers, Title: "The upgrade of the agents to " + r.Version, Meaning: r.Message, Commands: []command{
		hitchctl("see how far it is", "agents", "status"), hitchctl("continue, without the nodes that rolled back", "agents", "upgrade")}}
	switch r.State {
	case api.RolloutStopped:
		d.Badge = badge{"bad", string(r.State)}
	case api.RolloutPaused:
		d.Badge = badge{"wait", string(r.State)}
	default:
		return nil
	}
	return []decision{d}
}

func missingFiles(instances []api.Instance) []decision {
	var objects []name
	var commands []command
	for _, i := range instances {
		faulty := slices.ContainsFunc(i.Files, func(f api.PackageFile) bool { return len(f.Faults) > 0 })
		if len(i.MissingFiles) > 0 || faulty {
			objects = append(objects, instanceName(i.Name, i.ID))
			commands = append(commands, applyCommand(i))
		}
	}
	if len(objects) == 0 {
		return nil
	}
	doc := api.Reasons[api.ReasonFileMissing]
	d := decision{stake: ofOthers, Badge: badge{"wait", "Missing"}, Title: "Package files are missing or not valid", Meaning: doc.Meaning, Action: doc.Action}
	d.about(objects, PathInstances)
	d.Commands, _ = few(commands, fewObjects)
	return []decision{d}
}

// applyCommand hands over the parameters and files of an instance.
func applyCommand(i api.Instance) command {
	return hitchctl("hand over parameters and package files", "apply", i.ID, "-f", "REQUEST.json", "--package", "DIRECTORY")
}
