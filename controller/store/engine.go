package store

import (
	"context"
	"iter"
)

// engine keeps values by bucket and key, and decides when they are durable. After close, view
// and transact fail.
type engine interface {
	// view runs fn on what is committed.
	view(fn func(snapshot) error) error
	// transact runs run once on what is committed and makes the changes that it returns durable,
	// all or none. There is one call at a time, and none while the engine is closed. An error
	// may come before run or after it.
	transact(run func(reader) writeSet) error
	// over is closed when the engine has ended by itself: it takes no change any more.
	over() <-chan struct{}
	// why is the reason, nil before that.
	why() error
	// close waits for running views of a file.
	close() error
}

// reader reads values. A value is only valid until the transaction ends and must not
// be changed. Reading what a disk does not give any more panics; see guard.
type reader interface {
	// has reports whether the bucket was created.
	has(bucket string) bool
	// get returns nil if there is no such key.
	get(bucket, key string) []byte
	// scan goes through the keys that start with prefix, in ascending order. The bucket
	// must not be changed meanwhile.
	scan(bucket, prefix string) iter.Seq2[string, []byte]
}

// snapshot is all that is committed at one moment.
type snapshot interface {
	reader
	// buckets are the names of all, in ascending order.
	buckets() []string
	// size is that of Tx.Size, space that of Tx.Space.
	size() int64
	space() (used, free int64, err error)
}

// writer sees its own writes.
type writer interface {
	reader
	create(bucket string)
	// put keeps the value, which must not be changed afterwards.
	put(bucket, key string, value []byte) error
	delete(bucket, key string)
}

// ending is when and why an engine ends by itself.
type ending struct {
	ctx context.Context
	end context.CancelCauseFunc
}

func newEnding() ending {
	ctx, end := context.WithCancelCause(context.Background())
	return ending{ctx, end}
}

func (e ending) over() <-chan struct{} { return e.ctx.Done() }

func (e ending) why() error { return context.Cause(e.ctx) }
