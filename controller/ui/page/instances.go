package page

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/shared/api"
)

// instanceRow is an instance in a list.
type instanceRow struct {
	Instance          name
	Name, Kind        string
	State             badge
	AtWork            []workShown
	Ready             readyShown
	Missing, Warnings int
	// Stack is the status of the stack, nil if it is not known.
	Stack   *badge
	StackID string
	Version int64
	Changed stamp
}

// lifeCycle is the state of an instance, which says nothing of its nodes.
func lifeCycle(i api.Instance) badge {
	return unconfirmed(badge{"plain", string(i.State)}, i.Unconfirmed)
}

// readyShown is how many nodes are Ready; Of says of what, and Percent is "" if it is not known.
type readyShown struct {
	Ready, Total int
	Percent, Of  string
}

// shownReady counts nodes of an instance. It has no bar if they were last heard of before a restore.
func shownReady(i api.Instance, nodes []api.Node, of string) readyShown {
	r := readyShown{Of: asReported(of, i.Unconfirmed)}
	r.Ready, r.Total = readyOf(nodes)
	if !i.Unconfirmed {
		r.Percent = percent(100 * float64(r.Ready) / float64(max(1, r.Total)))
	}
	return r
}

func (f Frame) instanceRow(i api.Instance, nodes []api.Node, operations []api.Operation) instanceRow {
	row := instanceRow{Instance: instanceName(i.Name, i.ID), Name: i.Name, Kind: string(i.Kind), State: lifeCycle(i),
		AtWork: workOf(operations), Ready: shownReady(i, nodes, ""),
		Missing: len(i.MissingFiles), Warnings: len(i.Warnings), StackID: cmp.Or(i.StackID, describe.None), Version: i.DesiredVersion, Changed: f.age(&i.UpdatedAt)}
	if i.Stack != nil && i.Stack.Status != "" {
		status := toned(describe.OfStack(i.Stack.Status), i.Stack.Status)
		row.Stack = &status
	}
	return row
}

type instancesPage struct {
	Rows  []instanceRow
	Pager pager
	First []command
}

func (v Instances) content(f Frame) content {
	query := f.query()
	nodes, operations := byInstance(v.Nodes), map[string][]api.Operation{}
	for _, o := range v.Operations {
		operations[o.VnfInstanceID] = append(operations[o.VnfInstanceID], o)
	}
	var found []api.Instance
	for _, i := range v.Instances {
		if fits(query, "state", i.State) && fits(query, "kind", i.Kind) && contains(query, instanceTexts(i)...) {
			found = append(found, i)
		}
	}
	form := newFilter(f, PathInstances, textControl("name, id, stack, server"), choice("state", "State", api.Instantiated, api.NotInstantiated),
		choice("kind", "Kind", api.KubernetesCluster, api.PrivateRegistry))
	shown, pager := paged(f, form, found, len(v.Instances))
	rows := make([]instanceRow, 0, len(shown))
	for _, i := range shown {
		rows = append(rows, f.instanceRow(i, nodes[i.ID], operations[i.ID]))
	}
	return content{name: "instances", title: "Instances", lead: "VNF instances: what is desired, and how many of their nodes are Ready.", filter: &form,
		changed: []string{ChangedInstances, ChangedNodes, ChangedOperations}, data: instancesPage{Rows: rows, Pager: pager, First: firstCommands()}}
}

func instanceTexts(i api.Instance) []string {
	texts := []string{i.ID, i.Name, string(i.Kind), i.StackID}
	if i.Stack != nil {
		texts = append(texts, i.Stack.Name, i.Stack.Status)
	}
	if i.Topology != nil {
		for _, s := range i.Topology.Servers {
			texts = append(texts, s.Name, s.ID)
		}
	}
	return texts
}

type instancePage struct {
	Name, ID      string
	Kind          string
	State         badge
	AtWork        []workShown
	Unconfirmed   string
	Restored      []field
	Facts         []field
	Ready         readyShown
	Roles         []roleShown
	Nodes         nodeTable
	RestNodes     int
	NodesPath     string
	Servers       []serverShown
	RestServers   int
	Stack         []field
	Files         []fileShown
	Warnings      []faultShown
	Versions      []versionShown
	RestVersions  int
	Volumes       []volumeRow
	Operations    []operationRow
	OperationPath string
	Events        []eventRow
	History       string
	Commands      []command
	NoNodes       string
}

// workShown is an operation in progress.
type workShown struct {
	Badge badge
	Path  string
}

// kubernetesOf names the version of a cluster that nodehitch makes, "" if it makes none.
func kubernetesOf(i api.Instance) string {
	given := paramsOf(i)
	if given == nil || given.Cluster == nil || given.Cluster.Kubernetes == nil {
		return ""
	}
	return given.Cluster.Kubernetes.Version + ", made by nodehitch"
}

// workOf are those of an instance's operations that are in progress.
func workOf(operations []api.Operation) (list []workShown) {
	for _, o := range operations {
		if o.State == api.Processing {
			list = append(list, workShown{toned(describe.OfOperation(o.State), operationWork(o, operations)), operationPath(o)})
		}
	}
	return list
}

// roleShown is how many servers have a role, and how many of them are Ready.
type roleShown struct {
	readyShown
	Role, Path string
}

// serverShown is a server of the topology, with what an operation may name it by.
type serverShown struct {
	Name                    name
	VNFC, Member, Placement string
}

// fileShown is a file of the VNF package, there or missing.
type fileShown struct {
	Path   string
	Badge  badge
	Size   string
	Digest string
	Faults []faultShown
	Action string
}

// versionShown is when a version of the desired state came into force.
type versionShown struct {
	Version, Before string
	At              stamp
	By              string
	Present         bool
}

// fewNodes is how many nodes the page of an instance shows, those that are not Ready first.
const fewNodes = 50

func (v Instance) content(f Frame) content {
	i := v.Instance
	p := instancePage{Name: i.Name, ID: i.ID, Kind: string(i.Kind), State: lifeCycle(i),
		Ready: shownReady(i, v.Nodes, "nodes Ready"), Roles: rolesOf(i, v.Nodes), Stack: f.stack(i), Files: files(i), Warnings: faults(i.Warnings),
		NodesPath: nodesOf(i.ID), OperationPath: withQuery(PathOperations, map[string][]string{"instance": {i.ID}}),
		Events: f.newest(v.Events, fewEvents), History: withQuery(PathHistory, map[string][]string{"instance": {i.ID}}), Commands: instanceCommands(i, v.Operations), NoNodes: describe.NoNodes}
	if i.Unconfirmed {
		p.Unconfirmed = describe.UnconfirmedInstance(i)
		if r := i.Restored; r != nil {
			p.Restored = fields(field{Label: "Restored", Time: f.both(&r.RestoredAt)}, field{Label: "From a backup of", Time: f.both(&r.TakenAt)})
		}
	}
	p.Facts = fields(field{Label: "Id", Text: i.ID}, field{Label: "Labels", Text: describe.Labels(i.Labels)}, field{Label: "Kind", Text: string(i.Kind)}, field{Label: "Kubernetes", Text: kubernetesOf(i)},
		field{Label: "Version in force", Text: strconv.FormatInt(i.DesiredVersion, 10)},
		field{Label: "Created", Time: f.both(&i.CreatedAt)}, field{Label: "Changed", Time: f.both(&i.UpdatedAt)})
	nodes := slices.Clone(v.Nodes)
	troubleFirst(nodes)
	nodes, p.RestNodes = few(nodes, fewNodes)
	p.Nodes = f.nodeTable(nodes)
	p.Nodes.Part, p.Nodes.Own = p.RestNodes > 0, true
	p.Servers, p.RestServers = few(servers(i.Topology), perPage)
	p.Versions, p.RestVersions = few(f.versions(i, v.Events), 10)
	all := byID(v.Nodes)
	for _, vol := range v.Volumes {
		p.Volumes = append(p.Volumes, f.volumeRow(vol, all))
	}
	p.AtWork = workOf(v.Operations)
	operations, _ := few(v.Operations, 10)
	for _, o := range operations {
		p.Operations = append(p.Operations, f.operationRow(o, v.Operations))
	}
	return content{name: "instance", title: "Instance " + describe.InstanceName(i.Name, i.ID), section: PathInstances,
		changed: []string{ChangedInstances, ChangedNodes, ChangedOperations, ChangedVolumes, ChangedEvents}, data: p}
}

func rolesOf(i api.Instance, nodes []api.Node) (list []roleShown) {
	for _, role := range roles {
		of := slices.DeleteFunc(slices.Clone(nodes), func(n api.Node) bool { return n.Role != role })
		r := roleShown{shownReady(i, of, ""), string(role), withQuery(PathNodes, map[string][]string{"instance": {i.ID}, "role": {string(role)}})}
		if r.Total > 0 {
			list = append(list, r)
		}
	}
	return list
}

func servers(t *api.Topology) (list []serverShown) {
	if t == nil {
		return nil
	}
	for _, s := range t.Servers {
		shown := serverShown{Name: nodeName(s.Name, s.ID), VNFC: s.VnfcInstanceID, Member: s.MemberStackID,
			Placement: strings.Join(slices.DeleteFunc([]string{s.AvailabilityZone, s.HypervisorHostname}, func(s string) bool { return s == "" }), ", ")}
		if shown.VNFC != "" || shown.Member != "" || shown.Placement != "" {
			list = append(list, shown)
		}
	}
	return list
}

// stack is what is known of the instance's Heat stack, and by whom.
func (f Frame) stack(i api.Instance) []field {
	list := []field{{Label: "Stack id", Text: i.StackID}}
	if s := i.Stack; s != nil {
		list = append(list, field{Label: "Name", Text: s.Name})
		if s.Status != "" {
			status := toned(describe.OfStack(s.Status), s.Status)
			list = append(list, field{Label: "Status", Badge: &status}, field{Label: "Observed", Text: describe.StackSource(*s), Time: f.both(s.ObservedAt)},
				field{Label: "Reason", Text: s.StatusReason})
		}
	}
	return fields(list...)
}

func files(i api.Instance) (list []fileShown) {
	for _, path := range i.MissingFiles {
		list = append(list, fileShown{Path: path, Badge: badge{"wait", "Missing"}, Action: describe.MissingFile})
	}
	for _, file := range i.Files {
		shown := fileShown{Path: file.Path, Badge: badge{"good", "There"}, Size: describe.Size(file.SizeBytes), Digest: short(file.Sha256), Faults: faults(file.Faults)}
		if len(file.Faults) > 0 {
			shown.Badge = badge{"bad", "Not valid"}
		}
		list = append(list, shown)
	}
	return list
}

// versions are those whose events are still kept, the newest first.
func (f Frame) versions(i api.Instance, events []api.Event) (list []versionShown) {
	present := strconv.FormatInt(i.DesiredVersion, 10)
	for _, e := range slices.Backward(events) {
		if e.Type == api.HappenedDesiredStateChanged {
			list = append(list, versionShown{Version: e.To, Before: e.From, At: f.both(&e.At), By: e.By, Present: e.To == present && len(list) == 0})
		}
	}
	return list
}

// instanceCommands are what an operator may want of an instance with these operations.
func instanceCommands(i api.Instance, operations []api.Operation) []command {
	list := []command{hitchctl("the same on a terminal", "describe", "instance", i.ID)}
	if i.Unconfirmed {
		list = append(list, hitchctl("let its nodes in again after the restore", "confirm", "instance", i.ID))
	}
	list = append(list, applyCommand(i))
	at := slices.IndexFunc(operations, func(o api.Operation) bool { return o.State == api.Processing })
	switch {
	case at >= 0:
		list = append(list, waitCommand(operations[at]))
	case i.State == api.NotInstantiated:
		list = append(list, hitchctl("instantiate it and wait", "operate", i.ID, "INSTANTIATE", "--wait"))
	default:
		list = append(list, hitchctl("wait until every node is Ready", "wait", "instance", i.ID))
	}
	list = append(list, hitchctl("follow what happens", "events", "--instance", i.ID, "--watch"))
	if i.State == api.Instantiated {
		list = append(list, destroys(hitchctl("terminate it and wait", "operate", i.ID, "TERMINATE", "--wait")))
	}
	return list
}
