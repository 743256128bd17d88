package store

import (
	"bytes"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/nodehitch/nodehitch/shared/api"
)

// decoded has records as they were read or written last, each with the text that it is
// in the store. A record is taken from here only while the store has that very text, so
// nothing has to be forgotten when a transaction is rolled back. It is for the records
// that grow with the number of an instance's nodes and are read at each report of one.
type decoded[T any] struct {
	recent *lru.Cache[string, entry[T]]
	copied func(T) T
}

type entry[T any] struct {
	value  []byte
	record T
}

// recent is what a store has decoded.
type recent struct {
	instances  *decoded[Instance]
	operations *decoded[Operation]
}

// maxDecoded bounds the memory of each decoded.
const maxDecoded = 256

func newDecoded[T any](copied func(T) T) *decoded[T] {
	recent, _ := lru.New[string, entry[T]](maxDecoded) // an error only for sizes below 1
	return &decoded[T]{recent, copied}
}

// get is a copy of the record, false if it has to be decoded. A nil decoded has none.
func (d *decoded[T]) get(key string, value []byte) (record T, found bool) {
	if d == nil {
		return record, false
	}
	e, found := d.recent.Get(key)
	if !found || !bytes.Equal(e.value, value) {
		return record, false
	}
	return d.copied(e.record), true
}

func (d *decoded[T]) add(key string, value []byte, record T) {
	if d != nil {
		d.recent.Add(key, entry[T]{bytes.Clone(value), d.copied(record)})
	}
}

// copied shares nothing with i that can be changed.
func (i Instance) copied() Instance {
	i.NodeIDs, i.VolumeIDs, i.JoinTokenMAC = slices.Clone(i.NodeIDs), slices.Clone(i.VolumeIDs), bytes.Clone(i.JoinTokenMAC)
	i.CarriedOver.Members, i.ClusterSecret, i.ClusterFacts = slices.Clone(i.CarriedOver.Members), slices.Clone(i.ClusterSecret), slices.Clone(i.ClusterFacts)
	return i
}

// copied shares nothing with o that can be changed. What is inside of a server, a volume
// or a fault is replaced as a whole everywhere.
func (o Operation) copied() Operation {
	o.Targets, o.Withheld, o.Warnings = slices.Clone(o.Targets), slices.Clone(o.Withheld), slices.Clone(o.Warnings)
	o.FinishedAt, o.Error = pointerTo(o.FinishedAt), pointerTo(o.Error)
	if o.Error != nil {
		o.Error.InvalidParams = slices.Clone(o.Error.InvalidParams)
	}
	o.Request.VnfcInstanceIds = slices.Clone(o.Request.VnfcInstanceIds)
	o.Request.Topology = copyOf(o.Request.Topology)
	return o
}

func copyOf(t *api.Topology) *api.Topology {
	if t = pointerTo(t); t != nil {
		t.Servers, t.ConnectionPoints, t.Volumes = slices.Clone(t.Servers), slices.Clone(t.ConnectionPoints), slices.Clone(t.Volumes)
	}
	return t
}

func pointerTo[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
