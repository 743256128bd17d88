package ui

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/controller/ui/page"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	// latest is how many events an object's page shows.
	latest = 50
	// mostOfOperation is how many events of its instance an operation's page reads.
	mostOfOperation = 10_000
)

var errNoPage = api.NewProblem(api.ProblemNotFound, "there is no such page; "+page.PathOverview+" leads to all of them")

func (u *UI) overview(r *http.Request) (page.View, error) {
	ctx := r.Context()
	instances, err1 := u.Instances.ListInstances(ctx)
	nodes, err2 := u.Nodes.ListNodes(ctx, "", false)
	operations, err3 := u.Operations.ListOperations(ctx, "")
	volumes, err4 := u.Volumes.List(ctx)
	rollout, err5 := u.Agents.Rollout(ctx)
	events, err6 := u.latest(event.Query{})
	replicas, err7 := u.Replicas.List(ctx)
	return page.Overview{Instances: instances, Nodes: nodes, Operations: operations, Volumes: volumes, Rollout: rollout, Replicas: replicas, Events: events},
		errors.Join(err1, err2, err3, err4, err5, err6, err7)
}

func (u *UI) instances(r *http.Request) (page.View, error) {
	instances, err1 := u.Instances.ListInstances(r.Context())
	nodes, err2 := u.Nodes.ListNodes(r.Context(), "", false)
	operations, err3 := u.Operations.ListOperations(r.Context(), "")
	return page.Instances{Instances: instances, Nodes: nodes, Operations: operations}, errors.Join(err1, err2, err3)
}

func (u *UI) instance(r *http.Request) (page.View, error) {
	id, err := idOf(r, "instance")
	if err != nil {
		return nil, err
	}
	instance, err := u.Instances.GetInstance(r.Context(), id)
	if err != nil {
		return nil, err
	}
	nodes, err1 := u.Nodes.ListNodes(r.Context(), id, false)
	operations, err2 := u.Operations.ListOperations(r.Context(), id)
	volumes, err3 := u.volumesOf(r, func(v api.Volume) bool { return v.VnfInstanceID == id })
	events, err4 := u.latest(event.Query{InstanceID: id})
	return page.Instance{Instance: instance, Nodes: nodes, Operations: operations, Volumes: volumes, Events: events}, errors.Join(err1, err2, err3, err4)
}

func (u *UI) nodes(r *http.Request) (page.View, error) {
	nodes, err := u.Nodes.ListNodes(r.Context(), "", false)
	return page.Nodes{Nodes: nodes}, err
}

func (u *UI) node(r *http.Request) (page.View, error) {
	id, err := idOf(r, "node")
	if err != nil {
		return nil, err
	}
	node, err := u.Nodes.GetNode(r.Context(), id)
	if err != nil {
		return nil, err
	}
	operations, err1 := u.Operations.ListOperations(r.Context(), node.VnfInstanceID)
	volumes, err2 := u.volumesOf(r, func(v api.Volume) bool { return v.NodeID == id })
	events, err3 := u.latest(event.Query{InstanceID: node.VnfInstanceID, NodeID: id})
	return page.Node{Node: node, Operations: operations, Volumes: volumes, Events: events}, errors.Join(err1, err2, err3)
}

func (u *UI) operations(r *http.Request) (page.View, error) {
	operations, err := u.Operations.ListOperations(r.Context(), "")
	return page.Operations{Operations: operations}, err
}

func (u *UI) operation(r *http.Request) (page.View, error) {
	id, err := idOf(r, "instance")
	if err != nil {
		return nil, err
	}
	sequence, err := strconv.ParseInt(r.PathValue("sequence"), 10, 64)
	if err != nil {
		return nil, errNoPage
	}
	operation, err := u.Operations.GetOperation(r.Context(), id, sequence)
	if err != nil {
		return nil, err
	}
	// The sequence of an event is never below its time in microseconds.
	began := operation.StartedAt.UnixMicro() - 1
	list, err := u.Events.List(event.Query{InstanceID: id, Since: &began, Limit: mostOfOperation})
	var pruned *api.Problem
	if errors.As(err, &pruned) && pruned.Type == api.ProblemEventsPruned {
		list, err = u.Events.List(event.Query{InstanceID: id, Limit: mostOfOperation})
	}
	if err != nil {
		return nil, err
	}
	operations, err1 := u.Operations.ListOperations(r.Context(), id)
	nodes, err2 := u.Nodes.ListNodes(r.Context(), id, false)
	return page.Operation{Operation: operation, Operations: operations, Nodes: nodes, Events: list.Items}, errors.Join(err1, err2)
}

func (u *UI) volumes(r *http.Request) (page.View, error) {
	volumes, err1 := u.Volumes.List(r.Context())
	nodes, err2 := u.Nodes.ListNodes(r.Context(), "", false)
	return page.Volumes{Volumes: volumes, Nodes: nodes}, errors.Join(err1, err2)
}

func (u *UI) volume(r *http.Request) (page.View, error) {
	id, err := idOf(r, "volume")
	if err != nil {
		return nil, err
	}
	view := page.Volume{}
	if view.Volume, err = u.Volumes.Get(r.Context(), id); err != nil {
		return nil, err
	}
	if view.Volume.NodeID != "" {
		if node, err := u.Nodes.GetNode(r.Context(), view.Volume.NodeID); err == nil { // it may be gone by now
			view.Node = &node
		}
	}
	view.Events, err = u.latest(event.Query{InstanceID: view.Volume.VnfInstanceID, VolumeID: id})
	return view, err
}

func (u *UI) registries(r *http.Request) (page.View, error) {
	instances, err1 := u.Instances.ListInstances(r.Context())
	nodes, err2 := u.Nodes.ListNodes(r.Context(), "", false)
	return page.Registries{Instances: instances, Nodes: nodes}, errors.Join(err1, err2)
}

func (u *UI) history(r *http.Request) (page.View, error) {
	query := r.URL.Query()
	q := event.Query{InstanceID: wholeID(query.Get("instance")), NodeID: wholeID(query.Get("node")), VolumeID: wholeID(query.Get("volume")), Limit: page.HistoryLength}
	nodes, err1 := u.Nodes.ListNodes(r.Context(), "", false)
	volumes, err2 := u.Volumes.List(r.Context())
	q.Fits = page.HistoryFits(query, nodes, volumes)
	list, err3 := u.Events.List(q)
	return page.History{Events: list.Items}, errors.Join(err1, err2, err3)
}

// latest are the newest events that the query asks for, in their order.
func (u *UI) latest(q event.Query) ([]api.Event, error) {
	q.Limit = latest
	list, err := u.Events.List(q)
	return list.Items, err
}

func (u *UI) volumesOf(r *http.Request, wanted func(api.Volume) bool) ([]api.Volume, error) {
	all, err := u.Volumes.List(r.Context())
	return slices.DeleteFunc(all, func(v api.Volume) bool { return !wanted(v) }), err
}

// idOf is a UUID of the path, in the form in which ids are kept.
func idOf(r *http.Request, name string) (string, error) {
	id := wholeID(r.PathValue(name))
	if id == "" {
		return "", errNoPage
	}
	return id, nil
}

// wholeID is a UUID in the form in which ids are kept, "" for another text.
func wholeID(text string) string {
	id := strings.ToLower(strings.TrimSpace(text))
	if len(id) != 36 || uuid.Validate(id) != nil {
		return ""
	}
	return id
}
