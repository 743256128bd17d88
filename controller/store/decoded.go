package store

import (
	"bytes"
	"maps"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/nodehitch/nodehitch/shared/api"
)

// decoded has records as they were read or written last, each with the text that it is
// in the store. A record is taken from here only while the store has that very text, so
// nothing has to be forgotten when a transaction is rolled back. It is for the records
// that grow with the number of an instance's nodes and are read at each report of one, and
// for that node, which is read several times.
type decoded struct {
	recent *lru.Cache[string, entry]
}

type entry struct {
	value []byte
	// record is a pointer, to what nobody changes.
	record any
}

// recent is what a store has decoded.
type recent struct {
	instances, operations, nodes *decoded
}

func newRecent() recent { return recent{newDecoded(), newDecoded(), newDecoded()} }

// maxDecoded bounds the memory of each decoded.
const maxDecoded = 256

func newDecoded() *decoded {
	recent, _ := lru.New[string, entry](maxDecoded) // an error only for sizes below 1
	return &decoded{recent}
}

// get is the record, which must not be changed, or nil if it has to be decoded. A nil decoded
// has none.
func (d *decoded) get(key string, value []byte) (record any) {
	if d == nil {
		return nil
	}
	e, found := d.recent.Get(key)
	if !found || !bytes.Equal(e.value, value) {
		return nil
	}
	return e.record
}

func (d *decoded) add(key string, value []byte, record any) {
	if d != nil {
		d.recent.Add(key, entry{bytes.Clone(value), record})
	}
}

// copied shares nothing with i that can be changed.
func (i Instance) copied() Instance {
	i.Labels = maps.Clone(i.Labels)
	i.NodeIDs, i.VolumeIDs, i.JoinTokenMAC = slices.Clone(i.NodeIDs), slices.Clone(i.VolumeIDs), bytes.Clone(i.JoinTokenMAC)
	i.CarriedOver.Wave = slices.Clone(i.CarriedOver.Wave)
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

// copied shares nothing with n that can be changed.
func (n Node) copied() Node {
	n.Addresses, n.Files, n.Conditions, n.Withheld = slices.Clone(n.Addresses), slices.Clone(n.Files), slices.Clone(n.Conditions), slices.Clone(n.Withheld)
	n.Config = slices.Clone(n.Config)
	n.AgentOffer, n.Identity, n.Agent, n.Status = pointerTo(n.AgentOffer), pointerTo(n.Identity), pointerTo(n.Agent), pointerTo(n.Status)
	if n.Identity != nil {
		n.Identity.RevokedAt = pointerTo(n.Identity.RevokedAt)
	}
	if n.Agent != nil {
		n.Agent.Sections = slices.Clone(n.Agent.Sections)
	}
	if s := n.Status; s != nil {
		s.Conditions, s.BoundPersistentVolumes = slices.Clone(s.Conditions), slices.Clone(s.BoundPersistentVolumes)
		for i := range s.Conditions {
			s.Conditions[i].Adoptable = slices.Clone(s.Conditions[i].Adoptable)
		}
		s.Activity, s.AgentUpgrade, s.Cluster, s.ControlPlane = pointerTo(s.Activity), pointerTo(s.AgentUpgrade), pointerTo(s.Cluster), pointerTo(s.ControlPlane)
		if s.AgentUpgrade != nil {
			s.AgentUpgrade.Refused = slices.Clone(s.AgentUpgrade.Refused)
		}
	}
	return n
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
