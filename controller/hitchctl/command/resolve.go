package command

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/controller/hitchctl/present"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// named is an object that a user can name.
type named struct{ id, name string }

// isID says that the text is a whole id, which needs no lookup.
func isID(text string) bool { return len(text) == 36 && uuid.Validate(text) == nil }

// choose finds the one object that the text means: by its id, its name, or an
// unambiguous beginning of its id. In an id with a slash, such as an operation's, the part
// before the slash may be shortened.
func choose(kind, text string, all []named) (string, error) {
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
	found := byName
	if len(found) == 0 {
		found = byPrefix
	}
	switch len(found) {
	case 1:
		return found[0].id, nil
	case 0:
		return "", fmt.Errorf("no %s has the name %q, or an id that begins with it; `hitchctl get %ss` lists them", kind, text, kind)
	}
	var ids []string
	for _, n := range found {
		ids = append(ids, strings.TrimSuffix(n.id+" "+n.name, " "))
	}
	slices.Sort(ids)
	return "", fmt.Errorf("%q could be %d %ss; say which:\n  %s", text, len(found), kind, strings.Join(ids, "\n  "))
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

func resolveInstance(ctx context.Context, c *client.Controller, text string) (string, error) {
	if isID(text) {
		return text, nil
	}
	all, err := listInstances(ctx, c)
	if err != nil {
		return "", err
	}
	return choose("instance", text, names(all, func(i api.Instance) named { return named{id: i.ID} }))
}

func resolveNode(ctx context.Context, c *client.Controller, text string) (string, error) {
	if isID(text) {
		return text, nil
	}
	all, err := listNodes(ctx, c, "")
	if err != nil {
		return "", err
	}
	return choose("node", text, names(all, nodeName))
}

func resolveVolume(ctx context.Context, c *client.Controller, text string) (string, error) {
	if isID(text) {
		return text, nil
	}
	all, err := listVolumes(ctx, c)
	if err != nil {
		return "", err
	}
	return choose("volume", text, names(all, volumeName))
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

func nodeName(n api.Node) named     { return named{n.ID, n.Name} }
func volumeName(v api.Volume) named { return named{v.ID, v.ResourceID} }
func tokenName(t api.Token) named   { return named{t.ID, t.Name} }

// operationName lets a user give the number alone where it is the only one.
func operationName(o api.Operation) named { return named{o.ID, strconv.FormatInt(o.Sequence, 10)} }

func names[T any](items []T, name func(T) named) []named {
	all := make([]named, len(items))
	for i, item := range items {
		all[i] = name(item)
	}
	return all
}

func listInstances(ctx context.Context, c *client.Controller) ([]api.Instance, error) {
	list, err := client.Read[api.InstanceList](c.ListInstances(ctx, nil))
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// listNodes lists the nodes of an instance, "" for all.
func listNodes(ctx context.Context, c *client.Controller, instance string) ([]api.Node, error) {
	list, err := client.Read[api.NodeList](c.ListNodes(ctx, &api.ListNodesParams{VnfInstanceID: orNil(instance)}))
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func listOperations(ctx context.Context, c *client.Controller) ([]api.Operation, error) {
	list, err := client.Read[api.OperationList](c.ListOperations(ctx, nil))
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func listVolumes(ctx context.Context, c *client.Controller) ([]api.Volume, error) {
	list, err := client.Read[api.VolumeList](c.ListVolumes(ctx))
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func listTokens(ctx context.Context, c *client.Controller) ([]api.Token, error) {
	list, err := client.Read[api.TokenList](c.ListTokens(ctx))
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// orNil is a pointer to a text, nil if there is none.
func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// titleOf is what an operation is called in a sentence.
func titleOf(o api.Operation) string {
	return present.OperationName(o) + " of instance " + present.Short(o.VnfInstanceID)
}
