package command

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/controller/wording"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/nearest"
)

// named is an object that a user can name.
type named struct {
	id, name string
	// about tells objects of one name apart.
	about string
	// over is an object that gives way to another one of its name.
	over bool
}

// isID says that the text is a whole id, which needs no lookup.
func isID(text string) bool { return len(text) == 36 && uuid.Validate(text) == nil }

// choose finds the one object that the text means: by its id, its name, or an
// unambiguous beginning of its id, with or without KIND/ before it. In an id with a slash,
// such as an operation's, the part before the slash may be shortened.
func choose(kind, text string, all []named) (string, error) {
	text = strings.TrimPrefix(text, kind+"/")
	var byName, byPrefix []named
	for _, n := range all {
		switch {
		case strings.EqualFold(n.id, text):
			return n.id, nil
		case n.name == text && text != "":
			byName = append(byName, n)
		case begins(n.id, text):
			byPrefix = append(byPrefix, n)
		}
	}
	if live := slices.DeleteFunc(slices.Clone(byName), func(n named) bool { return n.over }); len(live) > 0 {
		byName = live
	}
	found := byName
	if len(found) == 0 {
		found = byPrefix
	}
	switch len(found) {
	case 1:
		return found[0].id, nil
	case 0:
		return "", noneFound(kind, text, all)
	}
	return "", ambiguous(kind, text, found)
}

func noneFound(kind, text string, all []named) error {
	var known []string
	for _, n := range all {
		known = append(known, n.name)
	}
	has := fmt.Sprintf("the name %q, or an id that begins with it", text)
	switch kind {
	case "instance":
		has = fmt.Sprintf("an id that begins with %q", text)
	case "operation":
		has = fmt.Sprintf("the id or the number %q", text)
	}
	list := fmt.Sprintf("`hitchctl get %ss` lists them", kind)
	if near := nearest.Name(text, known); near != "" {
		return fmt.Errorf("no %s has %s; did you mean %s? %s", kind, has, near, list)
	}
	return fmt.Errorf("no %s has %s; %s", kind, has, list)
}

func ambiguous(kind, text string, found []named) error {
	var lines []string
	for _, n := range found {
		parts := slices.DeleteFunc([]string{n.name, n.about}, func(s string) bool { return s == "" })
		lines = append(lines, strings.TrimSpace(n.id+"  "+strings.Join(parts, ", ")))
	}
	slices.Sort(lines)
	return fmt.Errorf("%q could be %d %ss; give the id of one, or its beginning:\n  %s", text, len(found), kind, strings.Join(lines, "\n  "))
}

func begins(id, text string) bool {
	id, text = strings.ToLower(id), strings.ToLower(text)
	idHead, idTail, _ := strings.Cut(id, "/")
	head, tail, qualified := strings.Cut(text, "/")
	if qualified && idTail != tail {
		return false
	}
	return len(head) >= 2 && strings.HasPrefix(idHead, head)
}

// resolve gives the id of the object that the text means, of all that list gives.
func resolve[T any](kind, text string, name func(T) named, list func() ([]T, error)) (string, error) {
	if id := strings.TrimPrefix(text, kind+"/"); isID(id) {
		return id, nil
	}
	all, err := list()
	if err != nil {
		return "", err
	}
	return choose(kind, text, names(all, name))
}

func resolveInstance(ctx context.Context, c *client.Controller, text string) (string, error) {
	return resolve("instance", text, instanceName, func() ([]api.Instance, error) { return listInstances(ctx, c) })
}

func resolveNode(ctx context.Context, c *client.Controller, text string) (string, error) {
	return resolve("node", text, nodeName, func() ([]api.Node, error) { return listNodes(ctx, c, scope{all: true}) })
}

func resolveVolume(ctx context.Context, c *client.Controller, text string) (string, error) {
	return resolve("volume", text, volumeName, func() ([]api.Volume, error) { return listVolumes(ctx, c) })
}

// resolveOperation gives the whole record: its path needs instance and sequence.
func resolveOperation(ctx context.Context, c *client.Controller, text string) (api.Operation, error) {
	all, err := listOperations(ctx, c)
	if err != nil {
		return api.Operation{}, err
	}
	id, err := choose("operation", text, names(all, operationName))
	if err != nil {
		return api.Operation{}, err
	}
	i := slices.IndexFunc(all, func(o api.Operation) bool { return o.ID == id })
	return all[i], nil
}

func instanceName(i api.Instance) named { return named{id: i.ID, about: string(i.Kind)} }

// nodeName: a node that was revoked stays on the list when another one has its name.
func nodeName(n api.Node) named {
	return named{id: n.ID, name: n.Name, about: "instance " + wording.Short(n.VnfInstanceID) + ", " + string(n.State), over: n.State == api.NodeRevoked}
}

func volumeName(v api.Volume) named {
	return named{id: v.ID, name: v.ResourceID, about: "instance " + wording.Short(v.VnfInstanceID)}
}

func tokenName(t api.Token) named {
	return named{id: t.ID, name: t.Name, about: "made " + t.CreatedAt.UTC().Format(time.RFC3339)}
}

func replicaName(r api.Replica) named { return named{id: r.ID, about: string(r.State)} }

// operationName lets a user give the number alone where it is the only one.
func operationName(o api.Operation) named {
	return named{id: o.ID, name: strconv.FormatInt(o.Sequence, 10), about: wording.OperationName(o) + ", " + string(o.State)}
}

func names[T any](items []T, name func(T) named) []named {
	all := make([]named, len(items))
	for i, item := range items {
		all[i] = name(item)
	}
	return all
}

func listInstances(ctx context.Context, c *client.Controller) ([]api.Instance, error) {
	return client.All[api.Instance](func(page client.RequestEditorFn) (*http.Response, error) { return c.ListInstances(ctx, nil, page) })
}

func listNodes(ctx context.Context, c *client.Controller, of scope) ([]api.Node, error) {
	return client.All[api.Node](func(page client.RequestEditorFn) (*http.Response, error) {
		return c.ListNodes(ctx, of.nodes(), page)
	})
}

func listOperations(ctx context.Context, c *client.Controller) ([]api.Operation, error) {
	return client.All[api.Operation](func(page client.RequestEditorFn) (*http.Response, error) { return c.ListOperations(ctx, nil, page) })
}

func listVolumes(ctx context.Context, c *client.Controller) ([]api.Volume, error) {
	return client.All[api.Volume](func(page client.RequestEditorFn) (*http.Response, error) { return c.ListVolumes(ctx, nil, page) })
}

func listTokens(ctx context.Context, c *client.Controller) ([]api.Token, error) {
	return client.All[api.Token](func(page client.RequestEditorFn) (*http.Response, error) { return c.ListTokens(ctx, nil, page) })
}

func listReplicas(ctx context.Context, c *client.Controller) ([]api.Replica, error) {
	return client.All[api.Replica](func(page client.RequestEditorFn) (*http.Response, error) { return c.ListReplicas(ctx, nil, page) })
}

// orNil is a pointer to a text, nil if there is none.
func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// titleOf is what an operation is called in a sentence. END is the default, and is not said.
func titleOf(o api.Operation) string {
	name := strings.TrimSuffix(wording.OperationName(o), " "+string(api.PhaseEnd))
	return name + " of instance " + wording.Short(o.VnfInstanceID)
}
