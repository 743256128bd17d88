package store

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatATransactionHasChanged(t *testing.T) {
	p := newPlace(t)
	var got [][3]string
	o := p.options()
	o.Derive = func(tx *Tx) error {
		nodes, err := tx.Nodes().Changes()
		instances, instancesErr := tx.Instances().Changes()
		name := func(n *Node) string {
			if n == nil {
				return "none"
			}
			return n.Name
		}
		kind := func(i *Instance) string {
			if i == nil {
				return "none"
			}
			return string(i.Kind)
		}
		got = nil
		for _, c := range nodes {
			got = append(got, [3]string{c.Key, name(c.Before), name(c.After)})
		}
		for _, c := range instances {
			got = append(got, [3]string{c.Key, kind(c.Before), kind(c.After)})
		}
		slices.SortFunc(got, func(a, b [3]string) int { return slices.Compare(a[:], b[:]) })
		return errors.Join(err, instancesErr)
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	for _, c := range []struct {
		change func(*Tx) error
		want   [][3]string
	}{
		{func(tx *Tx) error {
			return errors.Join(tx.Nodes().Put("a", Node{Name: "one"}), tx.Nodes().Put("b", Node{Name: "one"}), tx.Instances().Put("i", Instance{Kind: "one"}))
		}, [][3]string{{"a", "none", "one"}, {"b", "none", "one"}, {"i", "none", "one"}}},
		{func(tx *Tx) error { // twice, as it was, deleted, new and deleted
			return errors.Join(tx.Nodes().Put("a", Node{Name: "two"}), tx.Nodes().Put("a", Node{Name: "three"}), tx.Nodes().Put("b", Node{Name: "one"}),
				tx.Instances().Put("i", Instance{Kind: "two"}), tx.Instances().Put("i", Instance{Kind: "three"}), tx.Nodes().Put("c", Node{}), tx.Nodes().Delete("c"))
		}, [][3]string{{"a", "one", "three"}, {"i", "one", "three"}}},
		{func(tx *Tx) error { return errors.Join(tx.Nodes().Delete("a"), tx.Nodes().Delete("x")) }, [][3]string{{"a", "three", "none"}}},
		{func(*Tx) error { return nil }, nil},
	} {
		update(t, s, c.change)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestATransactionThatCannotBeDerivedFromIsNotKept(t *testing.T) {
	p := newPlace(t)
	failed := errors.New("it failed")
	o := p.options()
	o.Derive = func(tx *Tx) error { return errors.Join(tx.Nodes().Put("derived", Node{}), failed) }
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	if err := s.Update(func(tx *Tx) error { return tx.Nodes().Put("a", Node{}) }); !errors.Is(err, failed) {
		t.Errorf("the transaction ends with %v", err)
	}
	view(t, s, func(tx *Tx) error {
		if n, err := tx.Nodes().Len(); n != 0 || err != nil {
			t.Errorf("%d nodes are kept, %v", n, err)
		}
		return nil
	})
}
