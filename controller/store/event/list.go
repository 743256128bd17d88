package event

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Query is which events are asked for. An empty id asks for all.
type Query struct {
	InstanceID, NodeID, VolumeID string
	// Type is the type of the events, "" for any.
	Type api.EventType
	// Fits reports whether an event is asked for besides, nil for any.
	Fits func(api.Event) bool
	// Since is the sequence behind which the events begin, the oldest first; nil asks for the
	// newest ones.
	Since *int64
	Limit int
}

// List is the events that are asked for, oldest first, at most Limit, and the sequence behind
// which to continue. If some of those behind Since are no longer kept, it is the problem
// events-pruned.
func (l *Log) List(q Query) (list api.EventList, err error) {
	list.Items = []api.Event{}
	if list.Sequence, err = l.position(q); err != nil {
		return list, err
	}
	err = l.store.View(func(t *store.Tx) error {
		records, err := l.find(t, q)
		if err != nil {
			return err
		}
		names, err := t.InstanceNames()
		if err != nil {
			return err
		}
		return q.collect(t, records, names, &list)
	})
	return list, err
}

// position is the newest sequence that is on disk, unless something behind Since is gone.
func (l *Log) position(q Query) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.Since == nil {
		return l.committed, nil
	}
	gone := l.gone
	for id, of := range l.kept {
		if q.InstanceID == "" || q.InstanceID == id {
			gone = max(gone, of.pruned)
		}
	}
	if *q.Since >= gone {
		return l.committed, nil
	}
	return 0, api.NewProblem(api.ProblemEventsPruned, fmt.Sprintf(
		"since is %d, and events up to %d are no longer kept (%s): list without since, and continue from there", *q.Since, gone, l.Keep))
}

// String says which events are kept.
func (keep Retention) String() string {
	return fmt.Sprintf("those of %d days, at most %d MiB of an instance and %d MiB in all", keep.Age/(24*time.Hour), keep.Each>>20, keep.All>>20)
}

// record is one record by its key.
type record struct {
	instanceID, key string
	sequence        int64
}

// find is the records that may have such events, oldest first.
func (l *Log) find(t *store.Tx, q Query) (records []record, err error) {
	for _, id := range l.instances(q) {
		keys, err := t.Events().Keys(store.InstancePrefix(id))
		if err != nil {
			return nil, err
		}
		if q.Type != "" && !slices.Contains(slices.Concat(said, silent), q.Type) { // what nodes have said may be thousands of records
			keys = slices.DeleteFunc(keys, isSaid)
		}
		of := make([]record, len(keys))
		for i, key := range keys {
			of[i] = record{instanceID: id, key: key}
			if _, of[i].sequence, err = store.ParseEventsKey(key); err != nil {
				return nil, err
			}
		}
		slices.SortFunc(of, func(a, b record) int { return cmp.Compare(a.sequence, b.sequence) })
		if q.Since != nil { // the one before may end behind it
			next := slices.IndexFunc(of, func(r record) bool { return r.sequence > *q.Since })
			if next < 0 {
				next = len(of)
			}
			of = of[max(0, next-1):]
		}
		records = append(records, of...)
	}
	slices.SortFunc(records, func(a, b record) int { return int(a.sequence - b.sequence) })
	return records, nil
}

// instances are those that have events behind Since.
func (l *Log) instances(q Query) (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, of := range l.kept {
		if (q.InstanceID == "" || q.InstanceID == id) && (q.Since == nil || of.last > *q.Since) {
			ids = append(ids, id)
		}
	}
	return ids
}

// collect adds the events to the list; names are those of the instances.
func (q Query) collect(t *store.Tx, records []record, names map[string]string, list *api.EventList) error {
	if q.Since == nil {
		slices.Reverse(records)
	}
	for _, r := range records {
		kept, _, err := t.Events().Get(r.key)
		if err != nil {
			return err
		}
		events := q.of(r, kept, names[r.instanceID])
		left := q.Limit - len(list.Items)
		cut := len(events) > left
		if q.Since == nil {
			slices.Reverse(events)
		}
		if cut {
			events = events[:left]
		}
		list.Items = append(list.Items, events...)
		if cut || len(list.Items) == q.Limit {
			if q.Since != nil {
				list.Sequence = list.Items[len(list.Items)-1].Sequence
				return nil
			}
			break
		}
	}
	if q.Since == nil {
		slices.Reverse(list.Items)
	}
	if n := len(list.Items); n > 0 {
		list.Sequence = max(list.Sequence, list.Items[n-1].Sequence)
	}
	return nil
}

// of are the events of a record that are asked for.
func (q Query) of(r record, kept store.Events, instanceName string) (events []api.Event) {
	for i, e := range kept.Events {
		sequence := r.sequence + int64(i)
		if q.Since != nil && sequence <= *q.Since || q.NodeID != "" && q.NodeID != e.NodeID || q.VolumeID != "" && q.VolumeID != e.VolumeID || q.Type != "" && q.Type != e.Type {
			continue
		}
		shown := api.Event{Sequence: sequence, At: kept.At, By: kept.By, VnfInstanceID: r.instanceID, VnfInstanceName: instanceName,
			Type: e.Type, NodeID: e.NodeID, NodeName: e.NodeName, VolumeID: e.VolumeID, OperationID: e.OperationID, TokenID: e.TokenID, TokenName: e.TokenName, Generation: e.Generation,
			Condition: e.Condition, From: e.From, To: e.To, Reason: e.Reason, Message: e.Message, BootedAt: e.BootedAt}
		if q.Fits == nil || q.Fits(shown) {
			events = append(events, shown)
		}
	}
	return events
}
