package store

import "iter"

// engine keeps values by bucket and key, and decides when they are durable.
type engine interface {
	// view runs fn on one snapshot of what is committed.
	view(fn func(reader) error) error
	// update runs fn once, alone among writers, on what those before it have left.
	// When it returns nil, all that fn wrote is durable. When fn returns an error or
	// panics, none of its writes is kept, and those of other writers are. An error of
	// the commit reaches every writer whose fn saw or wrote what was to be committed.
	update(fn func(writer) error) error
	// close waits for running transactions.
	close() error
}

// reader is a snapshot. A value is only valid until the transaction ends and must not
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

// writer sees its own writes.
type writer interface {
	reader
	create(bucket string)
	// put keeps the value, which must not be changed afterwards.
	put(bucket, key string, value []byte) error
	delete(bucket, key string)
}
