// Package page decides how the API's objects are shown on the status page: pure functions from
// objects and a clock to HTML. It reads nothing, and every action that it shows is a line of
// hitchctl to copy.
package page

import (
	"io"
	"net/url"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/plain"
)

// Frame is what a page needs besides its objects.
type Frame struct {
	// Now is the time that ages are counted to.
	Now time.Time
	// URL is the path and query of the request. A list takes its filter and its page from the
	// query; a live page asks for the same URL again.
	URL *url.URL
	// Token is the name of the API token that is signed in.
	Token string
	// Version is that of the controller.
	Version string
	// Fragment asks for what changes only, as the answer to a request with the header HX-Request.
	// It does not depend on Now, so its digest is an ETag.
	Fragment bool
}

// View is the objects of one page: one of the types below.
type View interface {
	content(f Frame) content
}

// Write writes a page as HTML in UTF-8: the whole page, or its fragment. It fails only if w does.
func Write(w io.Writer, f Frame, v View) error { return write(plain.Writer(w), f, v) }

// Overview is the first page: what an operator must decide, the fleet, operations at work, the
// latest events.
type Overview struct {
	Instances  []api.Instance
	Nodes      []api.Node
	Operations []api.Operation
	Volumes    []api.Volume
	Rollout    api.AgentRollout
	// Replicas are the controllers that share the store; none of a store of this one alone.
	Replicas []api.Replica
	// Events are the latest, in their order.
	Events []api.Event
}

// Instances is the list of instances; Nodes and Operations are those of all instances.
type Instances struct {
	Instances  []api.Instance
	Nodes      []api.Node
	Operations []api.Operation
}

// Instance is one instance. Events are its latest, in their order.
type Instance struct {
	Instance   api.Instance
	Nodes      []api.Node
	Operations []api.Operation
	Volumes    []api.Volume
	Events     []api.Event
}

// Nodes is the list of all nodes; the page filters it.
type Nodes struct {
	Nodes []api.Node
}

// Node is one node. Operations are those of its instance, Volumes those that its configuration
// names, Events its latest, in their order.
type Node struct {
	Node       api.Node
	Operations []api.Operation
	Volumes    []api.Volume
	Events     []api.Event
}

// Operations is the list of all operations, newest first.
type Operations struct {
	Operations []api.Operation
}

// Operation is one operation. Operations and Nodes are those of its instance, Events those since it
// began, in their order.
type Operation struct {
	Operation  api.Operation
	Operations []api.Operation
	Nodes      []api.Node
	Events     []api.Event
}

// Volumes is the list of all volumes.
type Volumes struct {
	Volumes []api.Volume
	Nodes   []api.Node
}

// Volume is one volume. Events are its latest, in their order.
type Volume struct {
	Volume api.Volume
	Node   *api.Node // that NodeID names, nil for none
	Events []api.Event
}

// Registries is the private registries and who is connected to them.
type Registries struct {
	Instances []api.Instance
	Nodes     []api.Node
}

// History is what has happened: the latest events in their order, at most HistoryLength of them,
// that HistoryFits picks.
type History struct {
	Events []api.Event
}

// HistoryLength is how many events a history is asked for.
const HistoryLength = 1000

// HistoryFits is whether the query of a history asks for an event: those of objects whose name or id is
// what the query says, or begins with it. Some events have no name of their node, and none the
// resource of its volume, so nodes and volumes tell.
func HistoryFits(query url.Values, nodes []api.Node, volumes []api.Volume) func(api.Event) bool {
	names, resources := namesOf(nodes), map[string]string{}
	for _, v := range volumes {
		resources[v.ID] = v.ResourceID
	}
	return func(e api.Event) bool {
		return begins(query, "instance", e.VnfInstanceID, e.VnfInstanceName) && begins(query, "node", e.NodeID, e.NodeName, names[e.NodeID]) &&
			begins(query, "volume", e.VolumeID, resources[e.VolumeID])
	}
}

// SignIn is the form in which an API token is given: POST to PathSignIn, fields `token` and `next`.
type SignIn struct {
	// Problem says why the last attempt failed, "" for none.
	Problem string
	// Next is the path and query below PathOverview to go on to.
	Next string
}

// Problem is the answer to a request that failed; not-found has words of its own.
type Problem struct {
	Problem api.Problem
}
