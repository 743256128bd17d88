package httpapi

import (
	"context"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store/event"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// ListEvents lists what has happened; with since it can be waited on.
func (s *Handler) ListEvents(ctx context.Context, r ListEventsRequestObject) (ListEventsResponseObject, error) {
	p := r.Params
	longest, err := waitOf(p.Wait)
	if err != nil {
		return nil, err
	}
	if p.Since == nil {
		longest = 0
	}
	q := event.Query{InstanceID: canonical(text(p.VnfInstanceID)), NodeID: canonical(text(p.NodeID)), VolumeID: canonical(text(p.VolumeID)),
		Since: p.Since, Limit: defaultLimit}
	if p.Type != nil {
		q.Type = *p.Type
	}
	if p.Limit != nil {
		q.Limit = *p.Limit
	}
	var list wire.EventList
	err = s.hold(ctx, notify.Events, longest, s.inTurn(ctx, func() (bool, error) {
		list, err = s.Events.List(q)
		return len(list.Items) > 0, err
	}))
	if err != nil {
		return nil, err
	}
	return ListEvents200JSONResponse(list), nil
}
