package httpapi

import (
	"context"
	"slices"

	"github.com/nodehitch/nodehitch/controller/notify"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// ListNodes lists nodes.
func (s *Handler) ListNodes(ctx context.Context, r ListNodesRequestObject) (ListNodesResponseObject, error) {
	p := r.Params
	got, err := list(ctx, s, notify.Nodes, asked{p.Limit, p.Marker, p.Wait, p.IfNoneMatch}, nodeKey, wire.Node.Quiet, func() ([]wire.Node, error) {
		items, err := s.Nodes.ListNodes(ctx, canonical(text(p.VnfInstanceID)), p.All != nil && *p.All)
		return slices.DeleteFunc(items, func(n wire.Node) bool {
			return other(p.Role, n.Role) || other(p.State, n.State) || other(p.Ready, n.Ready)
		}), err
	})
	if err != nil {
		return nil, err
	}
	if got.unchanged {
		return ListNodes304Response{Headers: NotModifiedResponseHeaders{ETag: &got.etag}}, nil
	}
	return ListNodes200JSONResponse{Body: wire.NodeList{Items: got.value.items}, Headers: ListNodes200ResponseHeaders{ETag: &got.etag, Link: got.value.next}}, nil
}

// GetNode shows one node; it can be waited on. What a node reports wakes who waits for nodes: its own
// key is that of its agent's poll.
func (s *Handler) GetNode(ctx context.Context, r GetNodeRequestObject) (GetNodeResponseObject, error) {
	node, err := watch(ctx, s, notify.Nodes, r.Params.Wait, r.Params.IfNoneMatch, func() (wire.Node, any, error) {
		node, err := s.Nodes.GetNode(ctx, canonical(r.NodeID))
		return node, node.Quiet(), err
	})
	if err != nil {
		return nil, err
	}
	node.etag = "W/" + node.etag // the time of its last call is not in it
	if node.unchanged {
		return GetNode304Response{Headers: NotModifiedResponseHeaders{ETag: &node.etag}}, nil
	}
	return GetNode200JSONResponse{Body: node.value, Headers: GetNode200ResponseHeaders{ETag: &node.etag}}, nil
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
	p := r.Params
	got, err := list(ctx, s, notify.Volumes, asked{p.Limit, p.Marker, p.Wait, p.IfNoneMatch}, volumeKey, nil, func() ([]wire.Volume, error) {
		instance, node := canonical(text(p.VnfInstanceID)), canonical(text(p.NodeID))
		items, err := s.Volumes.List(ctx)
		return slices.DeleteFunc(items, func(v wire.Volume) bool {
			return instance != "" && v.VnfInstanceID != instance || node != "" && v.NodeID != node || other(p.PermitState, v.PermitState)
		}), err
	})
	if err != nil {
		return nil, err
	}
	if got.unchanged {
		return ListVolumes304Response{Headers: NotModifiedResponseHeaders{ETag: &got.etag}}, nil
	}
	return ListVolumes200JSONResponse{Body: wire.VolumeList{Items: got.value.items}, Headers: ListVolumes200ResponseHeaders{ETag: &got.etag, Link: got.value.next}}, nil
}

// GetVolume shows one volume; it can be waited on.
func (s *Handler) GetVolume(ctx context.Context, r GetVolumeRequestObject) (GetVolumeResponseObject, error) {
	id := canonical(r.VolumeID)
	volume, err := watch(ctx, s, id, r.Params.Wait, r.Params.IfNoneMatch, func() (wire.Volume, any, error) {
		volume, err := s.Volumes.Get(ctx, id)
		return volume, volume, err
	})
	if err != nil {
		return nil, err
	}
	if volume.unchanged {
		return GetVolume304Response{Headers: NotModifiedResponseHeaders{ETag: &volume.etag}}, nil
	}
	return GetVolume200JSONResponse{Body: volume.value, Headers: GetVolume200ResponseHeaders{ETag: &volume.etag}}, nil
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
