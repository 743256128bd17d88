package page

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/shared/api"
)

// operationRow is an operation in a list.
type operationRow struct {
	Operation, Instance name
	Name                string
	State               badge
	Started, Deadline   stamp
	Took                string
	Ready, Targets      int
	Text                string
}

// progressShown is how far an operation is, in words and as a share; both are "" if it waits for nothing.
type progressShown struct{ Text, Percent string }

// reached counts the targets that are Ready. A START with members that leave has one target, which is
// asked to let them go, and does not say how many are gone.
func reached(o api.Operation) progressShown {
	all, done := len(o.Targets), 0
	for _, t := range o.Targets {
		if t.Ready {
			done++
		}
	}
	if all == 0 {
		return progressShown{}
	}
	p := progressShown{fmt.Sprintf("%d of %d targets Ready", done, all), percent(100 * float64(done) / float64(all))}
	switch leaving := len(o.Leaving); {
	case o.Phase != api.PhaseStart || leaving == 0:
	case leaving == 1:
		p.Text = fmt.Sprintf("%d of 1 has left", done/all)
	case done == all:
		p.Text = fmt.Sprintf("%d of %d have left", leaving, leaving)
	default:
		p.Text = fmt.Sprintf("not all of %d have left", leaving)
	}
	return p
}

// operationTitle is what a person calls the operation.
func operationTitle(o api.Operation) string {
	return describe.OperationTitle(o.Operation.Kind(o.Type), o.Phase)
}

// progress is how far it is; of are the operations of its instance, or more.
func progress(o api.Operation, of []api.Operation) badge {
	return toned(describe.OfOperation(o.State), describe.OperationProgress(o, of))
}

// operationWork names an operation in progress and what it waits for.
func operationWork(o api.Operation, of []api.Operation) string {
	state := describe.OperationProgress(o, of)
	return operationTitle(o) + ", " + strings.ToLower(state[:1]) + state[1:]
}

func (f Frame) operationRow(o api.Operation, of []api.Operation) operationRow {
	row := operationRow{Operation: operationName(o), Instance: instanceName(o.VnfInstanceName, o.VnfInstanceID), Name: operationTitle(o),
		State: progress(o, of), Started: f.age(&o.StartedAt), Took: describe.Took(o),
		Targets: len(o.Targets), Text: describe.Operation(o)}
	if o.FinishedAt == nil {
		row.Deadline = f.deadline(o.Deadline)
	}
	for _, t := range o.Targets {
		if t.Ready {
			row.Ready++
		}
	}
	return row
}

type operationsPage struct {
	Rows  []operationRow
	Pager pager
}

func (v Operations) content(f Frame) content {
	query := f.query()
	var found []api.Operation
	for _, o := range v.Operations {
		if fits(query, "state", o.State) && fits(query, "operation", o.Operation) && begins(query, "instance", o.VnfInstanceID, o.VnfInstanceName) &&
			contains(query, o.ID, operationTitle(o), describe.OperationName(o), describe.Operation(o), o.StackID, o.IdempotencyKey) {
			found = append(found, o)
		}
	}
	form := newFilter(f, PathOperations, textControl("id, stack, reason"),
		choice("state", "State", api.Processing, api.Completed, api.Failed).inWords(func(v string) string { return describe.OperationState(api.OperationState(v), "") }),
		choice("operation", "Operation", operationTypes...).inWords(func(v string) string { return describe.OperationTitle(v, api.PhaseEnd) }), control{Name: "instance", Label: "Instance", Hint: nameHint})
	shown, pager := paged(f, form, found, len(v.Operations))
	rows := make([]operationRow, 0, len(shown))
	for _, o := range shown {
		rows = append(rows, f.operationRow(o, v.Operations))
	}
	return content{name: "operations", title: "Operations", lead: "Each phase of each life-cycle operation, the newest first.", filter: &form,
		changed: []string{ChangedOperations, ChangedNodes}, data: operationsPage{Rows: rows, Pager: pager}}
}

var operationTypes = []api.OperationType{api.Instantiate, api.Scale, api.Heal, api.Terminate, api.ChangeExtConn, api.ModifyInfo, api.ChangeVnfPkg}

// targetShown is a target of an operation: Ready, or what it waits for.
type targetShown struct {
	Node            name
	Badge           badge
	Message         string
	Meaning, Action string
	WaitsFor        *name
	Healthy         bool
	Doing           *activityShown
}

// shownTarget names the node that it waits for if names has it, and what the node does if doing has it.
func (f Frame) shownTarget(t api.OperationTarget, names map[string]string, doing map[string]*api.Activity) targetShown {
	text, tone := describe.Target(t)
	shown := targetShown{Node: nodeName(t.Name, t.NodeID), Badge: toned(tone, text), Message: t.Message, Healthy: t.Ready}
	if !t.Ready {
		doc := api.Reasons[t.Reason]
		shown.Meaning, shown.Action, shown.Doing = doc.Meaning, doc.Action, f.activity(doing[t.NodeID])
	}
	if t.WaitsFor != "" {
		other := nodeName(names[t.WaitsFor], t.WaitsFor)
		shown.WaitsFor = &other
	}
	return shown
}

type operationPage struct {
	Name, ID          string
	State             badge
	Facts             []field
	Started, Deadline stamp
	Took              string
	Error             *problemShown
	Progress          progressShown
	Targets           []targetShown
	Healthy           int
	RestWaiting       int
	RestReady         int
	NodesPath         string
	Leaving           []name
	Withheld          []withheldShown
	Warnings          []faultShown
	Timeline          *timelineShown
	Events            []eventRow
	History           string
	Commands          []command
}

// problemShown is why something failed.
type problemShown struct {
	Title, Detail string
	Faults        []faultShown
}

// faultShown is what is wrong at one place of a document.
type faultShown struct{ Place, Message string }

func faults(list []api.Fault) (shown []faultShown) {
	for _, f := range list {
		shown = append(shown, faultShown{f.Pointer, f.Message})
	}
	return shown
}

// mostTargets is how many targets of an operation its page shows, those that it waits for first.
const mostTargets = 100

func (v Operation) content(f Frame) content {
	o := v.Operation
	p := operationPage{Name: operationTitle(o), ID: o.ID, State: progress(o, v.Operations), Facts: f.operationFacts(o),
		Progress: reached(o), Warnings: faults(o.Warnings), Timeline: f.timeline(o, v.Events),
		History: withQuery(PathHistory, map[string][]string{"instance": {o.VnfInstanceID}}), Commands: operationCommands(o)}
	p.NodesPath = nodesOf(o.VnfInstanceID)
	p.Started = f.age(&o.StartedAt)
	if o.FinishedAt == nil {
		p.Deadline = f.deadline(o.Deadline)
	} else {
		p.Took = describe.Took(o)
	}
	if o.Error != nil {
		p.Error = &problemShown{Title: describe.Problem(*o.Error), Detail: o.Error.Detail, Faults: faults(o.Error.InvalidParams)}
	}
	for _, m := range o.Leaving {
		p.Leaving = append(p.Leaving, nodeName(m.Name, m.NodeID))
	}
	var waiting, ready []targetShown
	names, doing := map[string]string{}, doingOf(v.Nodes)
	for _, t := range o.Targets {
		names[t.NodeID] = t.Name
	}
	p.Withheld = f.withheld(o.Withheld, names)
	for _, t := range o.Targets {
		if t.Ready {
			ready = append(ready, f.shownTarget(t, names, nil))
		} else {
			waiting = append(waiting, f.shownTarget(t, names, doing))
		}
	}
	waiting, p.RestWaiting = few(waiting, mostTargets)
	ready, p.RestReady = few(ready, mostTargets-len(waiting))
	p.Targets, p.Healthy = slices.Concat(waiting, ready), len(ready)
	own := slices.DeleteFunc(slices.Clone(v.Events), func(e api.Event) bool { return e.OperationID != o.ID })
	p.Events = f.newest(own, fewEvents)
	return content{name: "operation", title: p.Name + " " + describe.ShortOperation(o), section: PathOperations,
		changed: []string{ChangedOperations, ChangedNodes, ChangedEvents}, data: p}
}

func (f Frame) operationFacts(o api.Operation) []field {
	instance := instanceName(o.VnfInstanceName, o.VnfInstanceID)
	list := []field{{Label: "Id", Text: o.ID}, {Label: "In the API", Text: describe.OperationName(o) + " " + string(o.State)},
		{Label: "Instance", Link: &instance}, {Label: "Started", Time: f.both(&o.StartedAt)}}
	if o.FinishedAt == nil {
		list = append(list, field{Label: "Deadline", Time: f.both(&o.Deadline)})
	} else {
		list = append(list, field{Label: "Finished", Time: f.both(o.FinishedAt)}, field{Label: "Took", Text: describe.Took(o)})
	}
	list = append(list, field{Label: "Cancelled by", Text: o.CancelledBy}, field{Label: "Stack", Text: o.StackID}, field{Label: "Key", Text: o.IdempotencyKey})
	if o.Force {
		list = append(list, field{Label: "Force", Text: describe.Forced})
	}
	if o.PersistentVolumes != "" {
		list = append(list, field{Label: "PersistentVolumes", Text: describe.PersistentVolumes(o.PersistentVolumes)})
	}
	if o.OldServerIsOffBy != "" {
		list = append(list, field{Label: "Old storage server", Text: describe.OldServerIsOff(o.OldServerIsOffBy)})
	}
	return fields(list...)
}

// operationCommands are what an operator may want of an operation.
func operationCommands(o api.Operation) []command {
	list := []command{hitchctl("the same on a terminal", "describe", "operation", o.ID)}
	if o.State == api.Processing {
		list = append(list, waitCommand(o))
		if o.Operation != api.Terminate {
			list = append(list, hitchctl("end it before its deadline", "cancel", "operation", o.ID))
		}
	}
	return list
}

func waitCommand(o api.Operation) command {
	return hitchctl("wait until "+operationTitle(o)+" is over", "wait", "operation", o.ID)
}

// short is the beginning of a digest.
func short(sha256 string) string { return "sha256:" + sha256[:min(12, len(sha256))] }

func generation(n int64) string { return "generation " + strconv.FormatInt(n, 10) }

// listed is texts with commas, None for none.
func listed(texts []string) string { return cmp.Or(strings.Join(texts, ", "), describe.None) }
