package api

import (
	"context"
	"fmt"

	wire "github.com/nodehitch/nodehitch/shared/api"

	"github.com/nodehitch/nodehitch/controller/notify"
)

// operationRetrySeconds is how soon it is worth asking for an operation again
// if the client cannot wait with ?wait.
const operationRetrySeconds = 2

// ListInstances lists all instances; it can be waited on.
func (s *Handler) ListInstances(ctx context.Context, r ListInstancesRequestObject) (ListInstancesResponseObject, error) {
	list, err := watch(ctx, s, notify.Instances, r.Params.Wait, r.Params.IfNoneMatch, func() (wire.InstanceList, any, error) {
		items, err := s.Instances.ListInstances(ctx)
		return wire.InstanceList{Items: orEmpty(items)}, items, err
	})
	if err != nil {
		return nil, err
	}
	if list.unchanged {
		return ListInstances304Response{Headers: NotModifiedResponseHeaders{ETag: &list.etag}}, nil
	}
	return ListInstances200JSONResponse{Body: list.value, Headers: ListInstances200ResponseHeaders{ETag: &list.etag}}, nil
}

// PutInstance creates or replaces the parameters of an instance.
func (s *Handler) PutInstance(ctx context.Context, r PutInstanceRequestObject) (PutInstanceResponseObject, error) {
	instance, created, err := s.Instances.PutInstance(ctx, canonical(r.VnfInstanceID), *r.Body)
	switch {
	case err != nil:
		return nil, err
	case created:
		return PutInstance201JSONResponse(instance), nil
	}
	return PutInstance200JSONResponse(instance), nil
}

// PlanInstance shows what a PUT would change.
func (s *Handler) PlanInstance(ctx context.Context, r PlanInstanceRequestObject) (PlanInstanceResponseObject, error) {
	plan, err := s.Instances.PlanInstance(ctx, canonical(r.VnfInstanceID), *r.Body)
	if err != nil {
		return nil, err
	}
	return PlanInstance200JSONResponse(plan), nil
}

// GetInstance shows an instance, its secrets redacted.
func (s *Handler) GetInstance(ctx context.Context, r GetInstanceRequestObject) (GetInstanceResponseObject, error) {
	instance, err := s.Instances.GetInstance(ctx, canonical(r.VnfInstanceID))
	if err != nil {
		return nil, err
	}
	return GetInstance200JSONResponse(instance), nil
}

// DeleteInstance forgets an instance, and the files that only it had.
func (s *Handler) DeleteInstance(ctx context.Context, r DeleteInstanceRequestObject) (DeleteInstanceResponseObject, error) {
	if err := s.Instances.DeleteInstance(ctx, canonical(r.VnfInstanceID)); err != nil {
		return nil, err
	}
	if err := s.Files.Collect(ctx); err != nil {
		// The instance is gone; what is left is space, and the next collection's.
		s.Log.WarnContext(ctx, "package files of a deleted instance are still on disk", "error", err)
	}
	return DeleteInstance204Response{}, nil
}

// GetJoinToken shows what user_data of the instance's VMs carries.
func (s *Handler) GetJoinToken(ctx context.Context, r GetJoinTokenRequestObject) (GetJoinTokenResponseObject, error) {
	token, err := s.Enrollment.JoinToken(ctx, canonical(r.VnfInstanceID))
	if err != nil {
		return nil, err
	}
	return GetJoinToken200JSONResponse{Token: token}, nil
}

// PostOperation starts one phase of an operation, or joins it.
func (s *Handler) PostOperation(ctx context.Context, r PostOperationRequestObject) (PostOperationResponseObject, error) {
	id := canonical(r.VnfInstanceID)
	operation, err := s.Operations.PostOperation(ctx, id, *r.Body)
	if err != nil {
		return nil, err
	}
	location := fmt.Sprintf("/v1/vnf_instances/%s/operations/%d", id, operation.Sequence)
	seconds := operationRetrySeconds
	return PostOperation202JSONResponse{
		Body:    operation,
		Headers: PostOperation202ResponseHeaders{Location: &location, RetryAfter: &seconds},
	}, nil
}

// ListInstanceOperations lists the operations of one instance, newest first.
func (s *Handler) ListInstanceOperations(ctx context.Context, r ListInstanceOperationsRequestObject) (ListInstanceOperationsResponseObject, error) {
	id := canonical(r.VnfInstanceID)
	if _, err := s.Instances.GetInstance(ctx, id); err != nil {
		return nil, err
	}
	items, err := s.Operations.ListOperations(ctx, id)
	if err != nil {
		return nil, err
	}
	return ListInstanceOperations200JSONResponse{Items: orEmpty(items)}, nil
}

// ListOperations lists all operations, newest first; it can be waited on.
func (s *Handler) ListOperations(ctx context.Context, r ListOperationsRequestObject) (ListOperationsResponseObject, error) {
	list, err := watch(ctx, s, notify.Operations, r.Params.Wait, r.Params.IfNoneMatch, func() (wire.OperationList, any, error) {
		items, err := s.Operations.ListOperations(ctx, "")
		return wire.OperationList{Items: orEmpty(items)}, items, err
	})
	if err != nil {
		return nil, err
	}
	if list.unchanged {
		return ListOperations304Response{Headers: NotModifiedResponseHeaders{ETag: &list.etag}}, nil
	}
	return ListOperations200JSONResponse{Body: list.value, Headers: ListOperations200ResponseHeaders{ETag: &list.etag}}, nil
}

// GetOperation shows one operation; with wait, once it has finished.
func (s *Handler) GetOperation(ctx context.Context, r GetOperationRequestObject) (GetOperationResponseObject, error) {
	wait, err := waitOf(r.Params.Wait)
	if err != nil {
		return nil, err
	}
	id := canonical(r.VnfInstanceID)
	var operation wire.Operation
	err = s.hold(ctx, wire.OperationID(id, r.Sequence), wait, func() (bool, error) {
		operation, err = s.Operations.GetOperation(ctx, id, r.Sequence)
		return operation.State != wire.Processing, err
	})
	if err != nil {
		return nil, err
	}
	return GetOperation200JSONResponse(operation), nil
}
