// Package event is what has happened, in order: it derives the events of each transaction from
// the records that the transaction changes, and keeps them in that very transaction, one record
// for each VNF instance that the transaction changes. No code that changes records tells it
// anything, so no change can go without its event. Events decide nothing.
package event

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
)

// Retention is how many events are kept.
type Retention struct {
	// Age is for how long.
	Age time.Duration
	// Each is how many bytes of an instance, and All how many of all instances: beyond that,
	// the instance with the most loses its oldest, and first of what its nodes have said.
	Each, All int
}

// Kept is the retention of every controller.
var Kept = Retention{Age: 30 * 24 * time.Hour, Each: 16 << 20, All: 64 << 20}

// Log keeps the events. Its exported fields are set before the store is opened, with Derive as
// store.Options.Derive; Load comes before the first transaction. Its methods may be called at
// the same time.
type Log struct {
	Hub  *notify.Hub
	Now  func() time.Time
	Keep Retention
	Log  *slog.Logger
	// Metrics counts what is on disk; nil counts nothing.
	Metrics Metrics

	store *store.Store

	mu sync.Mutex
	// last is the newest sequence that was given, committed the newest that is on disk.
	last, committed int64
	// gone is a sequence up to which events of instances without any other may be gone.
	gone int64
	kept map[string]span // by instance
	// enrolled has the nodes that have not reported Ready since they enrolled, those of before the
	// start excepted.
	enrolled map[string]bool
}

// span is the events of one instance that are kept.
type span struct {
	bytes int
	// first and last are the sequences of the oldest and the newest event, pruned is that of the
	// newest event that is no longer kept.
	first, last, pruned int64
}

// sequenceAt is the sequence of an event at that time, if there is no other. So sequences
// continue to rise after a restore, and a client that knows a later one than the backup has
// misses nothing that comes.
func sequenceAt(t time.Time) int64 { return t.UnixMicro() }

// Load reads which events there are.
func (l *Log) Load(s *store.Store) error {
	l.store, l.kept, l.enrolled = s, map[string]span{}, map[string]bool{}
	l.last = sequenceAt(l.Now())
	l.gone = sequenceAt(l.Now().Add(-l.Keep.Age))
	err := s.View(func(t *store.Tx) error {
		sizes, err := t.Events().Sizes("")
		for i, record := range sizes {
			if err == nil {
				err = l.load(t, record, i == 0 || !sameRun(record.Key, sizes[i-1].Key), i+1 == len(sizes) || !sameRun(record.Key, sizes[i+1].Key))
			}
		}
		return err
	})
	l.committed = l.last
	if err != nil {
		return fmt.Errorf("reading the events: %w", err)
	}
	return nil
}

// sameRun says that both keys are of one instance, and of what its nodes have said or not.
func sameRun(a, b string) bool {
	x, _, errX := store.ParseEventsKey(a)
	y, _, errY := store.ParseEventsKey(b)
	return errX == nil && errY == nil && x == y && isSaid(a) == isSaid(b)
}

// isSaid says that a record has what a node has said.
func isSaid(key string) bool { return strings.Contains(key, "/+") }

// load counts a record. oldest and newest: it is the first or the last one of its run.
func (l *Log) load(t *store.Tx, record store.Size, oldest, newest bool) error {
	id, sequence, err := store.ParseEventsKey(record.Key)
	if err != nil {
		return err
	}
	of, known := l.kept[id]
	of.bytes += record.Bytes
	if oldest || newest {
		r, _, err := t.Events().Get(record.Key)
		if err != nil {
			return err
		}
		of.last, of.pruned = max(of.last, sequence+int64(len(r.Events))-1), max(of.pruned, r.PrunedTo)
		if !known || sequence < of.first {
			of.first = sequence
		}
	}
	l.kept[id], l.last = of, max(l.last, of.last)
	return nil
}

// Derive writes what has happened by what the transaction has changed.
func (l *Log) Derive(t *store.Tx) error {
	happened, err := derive(t)
	if err != nil {
		return err
	}
	if l.Metrics != nil && len(happened.ends)+len(happened.steps) > 0 {
		t.OnCommit(func() { l.count(happened) })
	}
	if len(happened.events) == 0 {
		return nil
	}
	at := l.Now().UTC().Round(0)
	written := map[string]span{}
	for _, id := range slices.Sorted(maps.Keys(happened.events)) {
		r := store.Events{At: at, By: cmp.Or(t.Who(), byController), Events: happened.events[id]}
		of := l.next(at, len(r.Events))
		key := store.EventsKey(id, of.first)
		if onlySaid(r) {
			key = store.SaidKey(id, of.first)
		}
		if of.bytes, err = put(t, key, r); err != nil {
			return err
		}
		written[id] = of
	}
	t.OnCommit(func() { l.wrote(written) })
	return nil
}

// put writes a record, and returns its size.
func put(t *store.Tx, key string, r store.Events) (bytes int, err error) {
	if err := t.Events().Put(key, r); err != nil {
		return 0, err
	}
	written, err := t.Events().Sizes(key)
	if err != nil {
		return 0, err
	}
	return written[0].Bytes, nil
}

// next gives sequences for a record with so many events. One that is rolled back leaves a gap.
func (l *Log) next(at time.Time, events int) span {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := max(l.last+1, sequenceAt(at))
	l.last = first + int64(events) - 1
	return span{first: first, last: l.last}
}

func (l *Log) wrote(written map[string]span) {
	l.mu.Lock()
	for id, more := range written {
		of, known := l.kept[id]
		if !known || more.first < of.first { // those of one commit are told in any order
			of.first = more.first
		}
		of.bytes, of.last = of.bytes+more.bytes, max(of.last, more.last)
		l.kept[id], l.committed = of, max(l.committed, more.last)
	}
	l.mu.Unlock()
	l.Hub.Changed(notify.Events)
}
