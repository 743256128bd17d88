package jsontree

import (
	"fmt"

	"github.com/nodehitch/nodehitch/shared/fault"
)

// maxDuplicates bounds the list: the places of a document made of nothing but
// duplicates could together be far larger than the document.
const maxDuplicates = 100

// Duplicates is one fault for each member name that an object below n gives more
// than once; which of the values was meant cannot be known. at is the place of n.
func (n *Node) Duplicates(at fault.At) fault.List {
	d := duplicates{root: at}
	d.walk(n)
	return d.faults
}

// duplicates keeps the path as steps and renders it only for a fault.
type duplicates struct {
	root   fault.At
	path   []func(fault.At) fault.At
	faults fault.List
}

func (d *duplicates) walk(n *Node) {
	if len(d.faults) >= maxDuplicates {
		return
	}
	if len(n.Members) > 1 {
		count := make(map[string]int, len(n.Members))
		for _, m := range n.Members {
			if count[m.Name]++; count[m.Name] == 2 {
				d.report(m.Name)
			}
		}
	}
	for i, item := range n.Items {
		d.below(item, func(at fault.At) fault.At { return at.Index(i) })
	}
	for _, m := range n.Members {
		d.below(m.Value, func(at fault.At) fault.At { return at.Key(m.Name) })
	}
}

func (d *duplicates) below(n *Node, step func(fault.At) fault.At) {
	if n.Kind != List && n.Kind != Object {
		return
	}
	d.path = append(d.path, step)
	d.walk(n)
	d.path = d.path[:len(d.path)-1]
}

func (d *duplicates) report(name string) {
	if len(d.faults) >= maxDuplicates {
		return
	}
	at := d.root
	for _, step := range d.path {
		at = step(at)
	}
	f := at.Key(name).Fault("is given more than once in one object; keep the one that is meant")
	d.faults = append(d.faults, f)
	if len(d.faults) == maxDuplicates {
		d.faults = append(d.faults, d.root.Fault(
			fmt.Sprintf("has more names given twice; only the first %d are listed", maxDuplicates)))
	}
}
