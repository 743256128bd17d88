package httpapi

import (
	"context"
	"slices"

	"github.com/nodehitch/nodehitch/controller/notify"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// ListNodes lists nodes; it can be waited on.
func (s *Handler) ListNodes(ctx context.Context, r ListNodesRequestObject) (ListNodesResponseObject, error) {
	p := r.Params
	var next *string
	list, err := watch(ctx, s, notify.Nodes, p.Wait, p.IfNoneMatch, func() (items []wire.Node, content any, err error) {
		if items, err = s.Nodes.ListNodes(ctx, canonical(text(p.VnfInstanceID)), p.All != nil && *p.All); err != nil {
			return nil, nil, err
		}
		items = slices.DeleteFunc(items, func(n wire.Node) bool {
			return other(p.Role, n.Role) || other(p.State, n.State) || other(p.Ready, n.Ready)
		})
		items, next, err = page(ctx, items, p.Limit, p.Marker, nodeKey)
		return items, []any{unseen(items), next}, err
	})
	if err != nil {
		return nil, err
	}
	list.etag = "W/" + list.etag // the time of their last call is not in it
	if list.unchanged {
		return ListNodes304Response{Headers: NotModifiedResponseHeaders{ETag: &list.etag}}, nil
	}
	return ListNodes200JSONResponse{Body: wire.NodeList{Items: list.value}, Headers: ListNodes200ResponseHeaders{ETag: &list.etag, Link: next}}, nil
}

// unseen is the nodes without the time of their last call, which changes all the
// time and makes no other list.
func unseen(nodes []wire.Node) []wire.Node {
	nodes = slices.Clone(nodes)
	for i := range nodes {
		nodes[i].LastSeenAt = nil
	}
	return nodes
}

// GetNode shows one node.
func (s *Handler) GetNode(ctx context.Context, r GetNodeRequestObject) (GetNodeResponseObject, error) {
	node, err := s.Nodes.GetNode(ctx, canonical(r.NodeID))
	if err != nil {
		return nil, err
	}
	return GetNode200JSONResponse(node), nil
}

// RevokeNode makes the node's identity void.
func (s *Handler) RevokeNode(ctx context.Context, r RevokeNodeRequestObject) (RevokeNodeResponseObject, error) {
	id := canonical(r.NodeID)
	if err := s.Enrollment.Revoke(ctx, id, "by "+callOf(ctx).who); err != nil {
		return nil, err
	}
	node, err := s.Nodes.GetNode(ctx, id)
	if err != nil {
		return nil, err
	}
	return RevokeNode200JSONResponse(node), nil
}

// ReenrollNode lets the server redeem the join token once more.
func (s *Handler) ReenrollNode(ctx context.Context, r ReenrollNodeRequestObject) (ReenrollNodeResponseObject, error) {
	id := canonical(r.NodeID)
	if err := s.Enrollment.Reenroll(ctx, id); err != nil {
		return nil, err
	}
	node, err := s.Nodes.GetNode(ctx, id)
	if err != nil {
		return nil, err
	}
	return ReenrollNode200JSONResponse(node), nil
}

// ListVolumes lists volumes.
func (s *Handler) ListVolumes(ctx context.Context, r ListVolumesRequestObject) (ListVolumesResponseObject, error) {
	if err := s.beginList(ctx); err != nil {
		return nil, err
	}
	items, err := s.Volumes.List(ctx)
	if err != nil {
		return nil, err
	}
	p := r.Params
	instance, node := canonical(text(p.VnfInstanceID)), canonical(text(p.NodeID))
	items = slices.DeleteFunc(items, func(v wire.Volume) bool {
		return instance != "" && v.VnfInstanceID != instance || node != "" && v.NodeID != node || other(p.PermitState, v.PermitState)
	})
	items, next, err := page(ctx, items, p.Limit, p.Marker, volumeKey)
	if err != nil {
		return nil, err
	}
	return ListVolumes200JSONResponse{Body: wire.VolumeList{Items: items}, Headers: ListVolumes200ResponseHeaders{Link: next}}, nil
}

// GetVolume shows one volume.
func (s *Handler) GetVolume(ctx context.Context, r GetVolumeRequestObject) (GetVolumeResponseObject, error) {
	volume, err := s.Volumes.Get(ctx, canonical(r.VolumeID))
	if err != nil {
		return nil, err
	}
	return GetVolume200JSONResponse(volume), nil
}

// AdoptVolume takes over a filesystem that an operator names.
func (s *Handler) AdoptVolume(ctx context.Context, r AdoptVolumeRequestObject) (AdoptVolumeResponseObject, error) {
	volume, err := s.Volumes.Adopt(ctx, canonical(r.VolumeID), r.Body.FilesystemUUID)
	if err != nil {
		return nil, err
	}
	return AdoptVolume200JSONResponse(volume), nil
}

// ReformatVolume permits one more format.
func (s *Handler) ReformatVolume(ctx context.Context, r ReformatVolumeRequestObject) (ReformatVolumeResponseObject, error) {
	volume, err := s.Volumes.Reformat(ctx, canonical(r.VolumeID), r.Body.ConfirmVolumeID)
	if err != nil {
		return nil, err
	}
	return ReformatVolume200JSONResponse(volume), nil
}
