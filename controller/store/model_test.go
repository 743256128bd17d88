package store

import (
	"errors"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// model is what a store should hold: two kinds, so that a transaction can be half.
type model struct {
	nodes   map[string]string // name by id
	volumes map[string]int64  // size by id
}

func (m model) clone() model { return model{maps.Clone(m.nodes), maps.Clone(m.volumes)} }

func (m model) is(tx *Tx) string {
	got := model{map[string]string{}, map[string]int64{}}
	nodes, nodesErr := tx.Nodes().All()
	for _, n := range nodes {
		got.nodes[n.ID] = n.Name
	}
	volumes, volumesErr := tx.Volumes().All()
	for _, v := range volumes {
		got.volumes[v.ID] = v.SizeBytes
	}
	if err := errors.Join(nodesErr, volumesErr); err != nil {
		return err.Error()
	}
	return cmp.Diff(m, got, cmp.AllowUnexported(model{}))
}

// change makes one drawn change, in the store and in the model.
func (m model) change(r *rapid.T, tx *Tx) error {
	id := rapid.StringMatching(`[a-c]{1,2}`).Draw(r, "id")
	switch rapid.IntRange(0, 3).Draw(r, "change") {
	case 0:
		m.nodes[id] = rapid.String().Draw(r, "name")
		return tx.Nodes().Put(id, Node{ID: id, Name: m.nodes[id]})
	case 1:
		delete(m.nodes, id)
		return tx.Nodes().Delete(id)
	case 2:
		m.volumes[id] = rapid.Int64().Draw(r, "size")
		return tx.Volumes().Put(id, Volume{ID: id, SizeBytes: m.volumes[id]})
	default:
		delete(m.volumes, id)
		return tx.Volumes().Delete(id)
	}
}

// Whatever a transaction does and however it ends: it sees what it has changed, it
// is there as a whole or not at all, it tells of its commit exactly then, and it is
// the same after the store was closed and opened.
func TestTransactionsAgainstAModel(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	boom := errors.New("boom")
	rapid.Check(t, func(r *rapid.T) {
		now := model{map[string]string{}, map[string]int64{}}
		update(t, s, func(tx *Tx) error { // what the case before has left
			nodes, _ := tx.Nodes().All()
			volumes, _ := tx.Volumes().All()
			var err error
			for _, n := range nodes {
				err = errors.Join(err, tx.Nodes().Delete(n.ID))
			}
			for _, v := range volumes {
				err = errors.Join(err, tx.Volumes().Delete(v.ID))
			}
			return err
		})
		r.Repeat(map[string]func(*rapid.T){
			"transaction": func(r *rapid.T) {
				next, told := now.clone(), false
				end := rapid.SampledFrom([]string{"commits", "fails", "panics"}).Draw(r, "end")
				err := outcome(func() error {
					return s.Update(func(tx *Tx) error {
						tx.OnCommit(func() { told = true })
						for range rapid.IntRange(0, 5).Draw(r, "changes") {
							if err := next.change(r, tx); err != nil {
								return err
							}
						}
						if diff := next.is(tx); diff != "" {
							r.Fatalf("the transaction does not see what it has done: %s", diff)
						}
						switch end {
						case "fails":
							return boom
						case "panics":
							panic(boom)
						}
						return nil
					})
				})
				if (err == nil) != (end == "commits") || told != (end == "commits") {
					r.Fatalf("it %s: error %v, told of a commit: %v", end, err, told)
				}
				if end == "commits" {
					now = next
				}
			},
			"reopen": func(*rapid.T) {
				shut(t, s)
				s = p.open(t)
			},
			"": func(r *rapid.T) {
				view(t, s, func(tx *Tx) error {
					if diff := now.is(tx); diff != "" {
						r.Fatalf("the store is not what it should be: %s", diff)
					}
					return nil
				})
			},
		})
	})
}

// outcome is what fn returns or panics with.
func outcome(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			cause, ok := p.(error)
			if !ok {
				panic(p)
			}
			err = cause
		}
	}()
	return fn()
}
