package permit

import (
	"crypto/rand"
	"encoding/hex"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

func (x *exchange) wanted() error {
	if err := x.mine(); err != nil {
		return err
	}
	p := &x.v.Permit
	switch p.State {
	case api.PermitNone:
		if err := x.sinceKnown(); err != nil {
			return err
		}
		return x.grant()
	case api.PermitGranted:
		if err := x.thisEpoch(); err != nil {
			return err
		}
		if p.NodeID != x.node {
			// The volume moved before that node began. Its permit is void, because only the
			// volume's node is acknowledged, and only with the permit on record.
			return x.grant()
		}
		return x.again()
	case api.PermitStarted:
		if p.NodeID != x.node {
			return interrupted(x.v)
		}
		if err := x.thisEpoch(); err != nil {
			return err
		}
		return x.again()
	default:
		return x.spent()
	}
}

// grant gives the permit of the volume's life, or the one that an operator allowed.
func (x *exchange) grant() error {
	v := x.v
	overwrite := v.ReformatRequested
	switch {
	case overwrite && (v.Permit.NodeID != x.node || v.Permit.Epoch != x.epoch):
		return noPermit("the reformat of the volume %s was confirmed for the server %s, and the situation has changed: "+
			"POST /v1/volumes/%s/reformat confirms it again", v.ID, v.Permit.NodeID, v.ID).With(reformat(v))
	case !overwrite && x.r.BlankCheck == nil:
		return noPermit("no blank check shows that the volume %s is blank: POST /v1/volumes/%s/adopt keeps what it holds, "+
			"POST /v1/volumes/%s/reformat erases it", v.ID, v.ID, v.ID).With(adopt(v), reformat(v))
	}
	id := make([]byte, 16)
	rand.Read(id)
	v.Permit = store.Permit{
		State:     api.PermitGranted,
		ID:        hex.EncodeToString(id),
		NodeID:    x.node,
		Overwrite: overwrite,
		SizeBytes: x.r.SizeBytes,
		Epoch:     x.epoch,
	}
	return nil
}

// again answers a lost answer: the same permit, for the same disk.
func (x *exchange) again() error {
	p := x.v.Permit
	if p.SizeBytes != x.r.SizeBytes {
		return noPermit("the permit of the volume %s is for a device of %d bytes and this one has %d: it is another disk", x.v.ID, p.SizeBytes, x.r.SizeBytes)
	}
	if p.State == api.PermitGranted && !p.Overwrite && x.r.BlankCheck == nil {
		return noPermit("the volume %s was blank when its permit was given, nothing was started, and no blank check shows that it still is: "+
			"find out what wrote to it", x.v.ID)
	}
	return nil
}
