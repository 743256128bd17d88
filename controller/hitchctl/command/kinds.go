package command

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/follow"
	"github.com/nodehitch/nodehitch/controller/hitchctl/present"
	"github.com/nodehitch/nodehitch/controller/hitchctl/query"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// kind is what the commands need to know of one kind of objects.
type kind[T any] struct {
	kindName
	// request asks for the list.
	request func(context.Context, *client.Controller, listRequest) (*http.Response, error)
	// all is what `get --all` adds, "" if there is no more.
	all string
	// named is how a user can name an object.
	named func(T) named
	// instance is the id of the instance that an object belongs to; nil if none does.
	instance func(T) string
	// fields and labels are what -l selects by: labels are those that users have given, nil if
	// none can be.
	fields []query.Field[T]
	labels func(T) map[string]string
	// quiet is the object without what changes all the time.
	quiet func(T) T
	table func(present.View, []T) screen.Table
}

// kindName is what a kind is called.
type kindName struct {
	singular string
	short    string // beside singular and plural, as kubectl does it; may be ""
	// has is what an object has that a text names; %q is the text.
	has string
}

// scope is which objects of a kind are listed.
type scope struct {
	instance string // its id, "" for every one
	all      bool   // also nodes that have left
}

// listRequest is a request for a list.
type listRequest struct {
	scope
	// hold is how long to wait until the list is not of this version.
	version, hold *string
	page          []client.RequestEditorFn
}

const hasNameOrID = "the name %q, or an id that begins with it"

var instanceKind = kind[api.Instance]{
	kindName: kindName{"instance", "vnf", hasNameOrID},
	request: func(ctx context.Context, c *client.Controller, r listRequest) (*http.Response, error) {
		return c.ListInstances(ctx, &api.ListInstancesParams{Wait: r.hold, IfNoneMatch: r.version}, r.page...)
	},
	named: func(i api.Instance) named {
		return named{id: i.ID, name: i.Name, about: string(i.Kind) + ", " + string(i.State)}
	},
	labels: func(i api.Instance) map[string]string { return i.Labels },
	fields: []query.Field[api.Instance]{
		{Name: "kind", Values: texts(api.KubernetesCluster, api.PrivateRegistry), Of: func(i api.Instance) string { return string(i.Kind) }},
		{Name: "state", Values: texts(api.NotInstantiated, api.Instantiated), Of: func(i api.Instance) string { return string(i.State) }},
	},
	table: present.View.Instances,
}

var nodeKind = kind[api.Node]{
	kindName: kindName{"node", "no", hasNameOrID},
	request: func(ctx context.Context, c *client.Controller, r listRequest) (*http.Response, error) {
		return c.ListNodes(ctx, &api.ListNodesParams{
			VnfInstanceID: orNil(r.instance), All: orNil(r.all), Wait: r.hold, IfNoneMatch: r.version,
		}, r.page...)
	},
	all: "also nodes that no topology names and whose identity was revoked more than a day ago",
	// A node that was revoked stays on the list when another one has its name.
	named: func(n api.Node) named {
		return named{id: n.ID, name: n.Name, about: "instance " + describe.InstanceName(n.VnfInstanceName, n.VnfInstanceID) + ", " + string(n.State), over: n.State == api.NodeRevoked}
	},
	instance: func(n api.Node) string { return n.VnfInstanceID },
	fields: []query.Field[api.Node]{
		{Name: "role", Values: roles, Of: func(n api.Node) string { return string(n.Role) }},
		{Name: "state", Values: nodeStates, Of: func(n api.Node) string { return string(n.State) }},
		{Name: "ready", Values: []string{"True", "False"}, Of: func(n api.Node) string { return describe.Truth(n.Ready) }},
	},
	quiet: api.Node.Quiet,
	table: present.View.Nodes,
}

var operationKind = kind[api.Operation]{
	kindName: kindName{"operation", "op", "the id or the number %q"},
	request: func(ctx context.Context, c *client.Controller, r listRequest) (*http.Response, error) {
		return c.ListOperations(ctx, &api.ListOperationsParams{Wait: r.hold, IfNoneMatch: r.version}, r.page...)
	},
	// The number alone is enough where it is the only one.
	named: func(o api.Operation) named {
		return named{id: o.ID, name: strconv.FormatInt(o.Sequence, 10), about: titleOf(o) + ", " + string(o.State)}
	},
	instance: func(o api.Operation) string { return o.VnfInstanceID },
	fields: []query.Field[api.Operation]{
		{Name: "operation", Values: operations, Of: func(o api.Operation) string { return string(o.Operation) }},
		{Name: "phase", Values: phases, Of: func(o api.Operation) string { return string(o.Phase) }},
		{Name: "state", Values: texts(api.Processing, api.Completed, api.Failed), Of: func(o api.Operation) string { return string(o.State) }},
	},
	table: present.View.Operations,
}

var volumeKind = kind[api.Volume]{
	kindName: kindName{"volume", "vol", hasNameOrID},
	request: func(ctx context.Context, c *client.Controller, r listRequest) (*http.Response, error) {
		return c.ListVolumes(ctx, &api.ListVolumesParams{Wait: r.hold, IfNoneMatch: r.version}, r.page...)
	},
	named: func(v api.Volume) named {
		return named{id: v.ID, name: v.ResourceID, about: "instance " + describe.InstanceName(v.VnfInstanceName, v.VnfInstanceID)}
	},
	instance: func(v api.Volume) string { return v.VnfInstanceID },
	fields: []query.Field[api.Volume]{
		{Name: "permit", Values: permitStates, Of: func(v api.Volume) string { return string(v.PermitState) }},
	},
	table: present.View.Volumes,
}

var tokenKind = kind[api.Token]{
	kindName: kindName{"token", "", hasNameOrID},
	request: func(ctx context.Context, c *client.Controller, r listRequest) (*http.Response, error) {
		return c.ListTokens(ctx, &api.ListTokensParams{Wait: r.hold, IfNoneMatch: r.version}, r.page...)
	},
	named: func(t api.Token) named {
		return named{id: t.ID, name: t.Name, about: "made " + t.CreatedAt.UTC().Format(time.RFC3339)}
	},
	fields: []query.Field[api.Token]{
		{Name: "scope", Values: scopes, Of: func(t api.Token) string { return string(t.Scope) }},
	},
	table: present.View.Tokens,
}

var replicaKind = kind[api.Replica]{
	kindName: kindName{"replica", "", hasNameOrID},
	request: func(ctx context.Context, c *client.Controller, r listRequest) (*http.Response, error) {
		return c.ListReplicas(ctx, &api.ListReplicasParams{Wait: r.hold, IfNoneMatch: r.version}, r.page...)
	},
	named: func(r api.Replica) named { return named{id: r.ID, about: string(r.State)} },
	fields: []query.Field[api.Replica]{
		{Name: "state", Values: texts(api.ReplicaLeader, api.ReplicaFollower, api.ReplicaStandby), Of: func(r api.Replica) string { return string(r.State) }},
	},
	quiet: api.Replica.Quiet,
	table: present.View.Replicas,
}

// kindNames are those of all kinds.
var kindNames = []kindName{instanceKind.kindName, nodeKind.kindName, operationKind.kindName, volumeKind.kindName, tokenKind.kindName, replicaKind.kindName}

// list is the whole list.
func (k kind[T]) list(ctx context.Context, c *client.Controller, of scope) ([]T, error) {
	return client.All[T](func(page client.RequestEditorFn) (*http.Response, error) {
		return k.request(ctx, c, listRequest{scope: of, page: []client.RequestEditorFn{page}})
	})
}

// poll watches the list.
func (k kind[T]) poll(c *client.Controller, of scope) follow.Poll {
	return func(ctx context.Context, version, hold string) (*http.Response, error) {
		resp, err := k.request(ctx, c, listRequest{scope: of, version: orNil(version), hold: orNil(hold)}) //nolint:bodyclose // follow closes it
		return client.Whole(resp, err, func(page client.RequestEditorFn) (*http.Response, error) {
			return k.request(ctx, c, listRequest{scope: of, page: []client.RequestEditorFn{page}})
		})
	}
}

func (k kind[T]) names(items []T) []named {
	all := make([]named, len(items))
	for i, item := range items {
		all[i] = k.named(item)
	}
	return all
}

func (k kindName) plural() string { return k.singular + "s" }

// withArticle is the kind in a sentence about any of its objects.
func (k kindName) withArticle() string {
	if strings.ContainsAny(k.singular[:1], "aeiou") {
		return "an " + k.singular
	}
	return "a " + k.singular
}

// aliases are all names of the kind but the one that a command has already.
func (k kindName) aliases(used string) []string {
	return slices.DeleteFunc([]string{k.singular, k.plural(), k.short}, func(name string) bool { return name == used || name == "" })
}

// splitKinds makes two words of each KIND/ID behind a command that has the kind below it, as
// `-o name` prints it: `describe node/X` is `describe node X`.
func splitKinds(root *cobra.Command, args []string) []string {
	var split []string
	for i, arg := range args {
		kind, id, found := strings.Cut(arg, "/")
		if found && i > 0 && hasKind(root, args[i-1], kind) {
			split = append(split, kind, id)
		} else {
			split = append(split, arg)
		}
	}
	return split
}

// hasKind reports whether the command of the root has one below it for the kind.
func hasKind(root *cobra.Command, command, kind string) bool {
	below, _, err := root.Find([]string{command, kind})
	return err == nil && below.HasParent() && below.Parent() != root &&
		slices.ContainsFunc(kindNames, func(k kindName) bool { return slices.Contains(k.aliases(""), kind) })
}

// orNil is a pointer to a value, nil if it is the zero value.
func orNil[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}
