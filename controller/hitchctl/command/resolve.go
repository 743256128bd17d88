package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
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
func choose(kind kindName, text string, all []named) (string, error) {
	text = strings.TrimPrefix(text, kind.singular+"/")
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

func noneFound(kind kindName, text string, all []named) error {
	var known []string
	for _, n := range all {
		known = append(known, n.name)
	}
	none := fmt.Sprintf("no %s has "+kind.has, kind.singular, text)
	list := fmt.Sprintf("`hitchctl get %s` lists them", kind.plural())
	if near := nearest.Name(text, known); near != "" {
		return fmt.Errorf("%s; did you mean %s? %s", none, near, list)
	}
	return fmt.Errorf("%s; %s", none, list)
}

func ambiguous(kind kindName, text string, found []named) error {
	var lines []string
	for _, n := range found {
		parts := slices.DeleteFunc([]string{n.name, n.about}, func(s string) bool { return s == "" })
		lines = append(lines, strings.TrimSpace(n.id+"  "+strings.Join(parts, ", ")))
	}
	slices.Sort(lines)
	return fmt.Errorf("%q could be %d %s; give the id of one, or its beginning:\n  %s", text, len(found), kind.plural(), strings.Join(lines, "\n  "))
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

// resolve is the id of the object that the text means.
func (k kind[T]) resolve(ctx context.Context, c *client.Controller, text string) (string, error) {
	if id := strings.TrimPrefix(text, k.singular+"/"); isID(id) {
		return id, nil
	}
	object, err := k.find(ctx, c, text)
	if err != nil {
		return "", err
	}
	return k.named(object).id, nil
}

// find is the object that the text means.
func (k kind[T]) find(ctx context.Context, c *client.Controller, text string) (T, error) {
	var none T
	all, err := k.list(ctx, c, scope{all: true})
	if err != nil {
		return none, err
	}
	id, err := choose(k.kindName, text, k.names(all))
	if err != nil {
		return none, err
	}
	return all[slices.IndexFunc(all, func(t T) bool { return k.named(t).id == id })], nil
}

// titleOf is what an operation is called in a sentence. END is the default, and is not said.
func titleOf(o api.Operation) string {
	name := strings.TrimSuffix(describe.OperationName(o), " "+string(api.PhaseEnd))
	return name + " of instance " + screen.Clean(describe.InstanceName(o.VnfInstanceName, o.VnfInstanceID))
}
