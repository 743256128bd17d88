package instance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

// errPlanned ends the transaction of a plan, so that nothing of it is kept.
var errPlanned = errors.New("a plan changes nothing")

// PlanInstance is what PutInstance of the same would change, on the instance and on each node.
// It makes the change in a transaction that is taken back.
func (s *Service) PlanInstance(ctx context.Context, id string, spec api.InstanceSpec) (api.InstancePlan, error) {
	var plan api.InstancePlan
	created, err := s.change(ctx, id, spec, nil, func(p *putRequest, t *tx.Tx) error {
		before, err := expected(t)
		if err != nil {
			return err
		}
		if err := p.put(t); err != nil {
			return err
		}
		if plan.Instance, err = s.show(t); err != nil {
			return err
		}
		after, err := expected(t)
		if err != nil {
			return err
		}
		if plan.Nodes, err = changesOf(t.Store, before, after); err != nil {
			return err
		}
		return errPlanned
	})
	if created {
		s.Observer.Forget(id)
	}
	if !errors.Is(err, errPlanned) {
		return api.InstancePlan{}, err
	}
	return plan, nil
}

// expected are the nodes that the topology in force names.
func expected(t *tx.Tx) (map[string]store.Node, error) {
	all, err := t.InstanceNodes()
	nodes := map[string]store.Node{}
	for _, n := range all {
		if n.Expected {
			nodes[n.ID] = n
		}
	}
	return nodes, err
}

// changesOf is what has become of the nodes, ordered by id. Nodes that stay as they are, are
// left out.
func changesOf(s *store.Store, before, after map[string]store.Node) ([]api.NodeChange, error) {
	list := []api.NodeChange{}
	for id, n := range after {
		old, found := before[id]
		sections, err := differing(s, old, n)
		if err != nil {
			return nil, err
		}
		change := api.NodeChange{ID: id, Name: n.Name, Role: n.Role, Change: api.NodeChanged, Sections: sections, Withheld: slices.Concat([]api.Withheld{}, n.Withheld)}
		if !found {
			change.Change = api.NodeAdded
		}
		if !found || old.Digest != n.Digest || !slices.Equal(old.Withheld, n.Withheld) {
			list = append(list, change)
		}
	}
	for id, n := range before {
		if _, stays := after[id]; !stays {
			list = append(list, api.NodeChange{ID: id, Name: n.Name, Role: n.Role, Change: api.NodeRemoved, Sections: []string{}, Withheld: []api.Withheld{}})
		}
	}
	slices.SortFunc(list, func(a, b api.NodeChange) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

// differing are the sections that two documents have differently, or only one of them has.
func differing(s *store.Store, a, b store.Node) ([]string, error) {
	before, err := sectionsOf(s, a)
	if err != nil {
		return nil, err
	}
	after, err := sectionsOf(s, b)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(api.Sections(), func(name string) bool { return bytes.Equal(before[name], after[name]) }), nil
}

// sectionsOf is the text of each member of the node's document.
func sectionsOf(s *store.Store, n store.Node) (members map[string]json.RawMessage, err error) {
	if len(n.Config) == 0 {
		return nil, nil
	}
	text, err := s.Unseal(n.Config)
	if err == nil {
		err = json.Unmarshal(text, &members)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the document of the node %s: %w", n.ID, err)
	}
	return members, nil
}
