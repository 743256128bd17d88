package httpapi

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodehitch/nodehitch/controller/notify"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// operationRetrySeconds is how soon it is worth asking for an operation again
// if the client cannot wait with ?wait.
const operationRetrySeconds = 2

// ListInstances lists all instances.
func (s *Handler) ListInstances(ctx context.Context, r ListInstancesRequestObject) (ListInstancesResponseObject, error) {
	p := r.Params
	selector, err := labels.Parse(text(p.LabelSelector))
	if err != nil {
		return nil, wire.NewProblem(wire.ProblemInvalid, fmt.Sprintf(
			"query parameter labelSelector: is %.100q; expected a label selector, such as env=prod,tier in (a, b),!old: %.200s", *p.LabelSelector, err))
	}
	got, err := list(ctx, s, notify.Instances, asked{p.Limit, p.Marker, p.Wait, p.IfNoneMatch}, instanceKey, nil, func() ([]wire.Instance, error) {
		items, err := s.Instances.ListInstances(ctx)
		return slices.DeleteFunc(items, func(i wire.Instance) bool {
			return other(p.Kind, i.Kind) || other(p.State, i.State) || other(p.Name, i.Name) || !selector.Matches(labels.Set(i.Labels))
		}), err
	})
	if err != nil {
		return nil, err
	}
	if got.unchanged {
		return ListInstances304Response{Headers: NotModifiedResponseHeaders{ETag: &got.etag}}, nil
	}
	return ListInstances200JSONResponse{Body: wire.InstanceList{Items: got.value.items}, Headers: ListInstances200ResponseHeaders{ETag: &got.etag, Link: got.value.next}}, nil
}

// PutInstance creates or replaces the parameters of an instance. Its answer is what GET shows, and
// has its ETag, so that a caller's next condition leaves no gap. RFC 9110, section 9.3.4, has none
// there, for clients that keep what they have sent as what is there: that has secrets which no
// GET shows.
func (s *Handler) PutInstance(ctx context.Context, r PutInstanceRequestObject) (PutInstanceResponseObject, error) {
	instance, created, err := s.Instances.PutInstance(ctx, canonical(r.VnfInstanceID), *r.Body, conditions(r.Params.IfMatch, r.Params.IfNoneMatch)...)
	if err != nil {
		return nil, err
	}
	etag, err := etagOf(instance)
	if err != nil {
		return nil, err
	}
	if created {
		location := instancePath(instance.ID)
		return PutInstance201JSONResponse{Body: instance, Headers: PutInstance201ResponseHeaders{ETag: &etag, Location: &location}}, nil
	}
	return PutInstance200JSONResponse{Body: instance, Headers: PutInstance200ResponseHeaders{ETag: &etag}}, nil
}

func instancePath(id string) string { return "/v1/vnf_instances/" + id }

// PlanInstance shows what a PUT would change.
func (s *Handler) PlanInstance(ctx context.Context, r PlanInstanceRequestObject) (PlanInstanceResponseObject, error) {
	plan, err := s.Instances.PlanInstance(ctx, canonical(r.VnfInstanceID), *r.Body)
	if err != nil {
		return nil, err
	}
	return PlanInstance200JSONResponse(plan), nil
}

// GetInstance shows an instance, its secrets redacted; it can be waited on.
func (s *Handler) GetInstance(ctx context.Context, r GetInstanceRequestObject) (GetInstanceResponseObject, error) {
	id := canonical(r.VnfInstanceID)
	instance, err := watch(ctx, s, id, r.Params.Wait, r.Params.IfNoneMatch, func() (wire.Instance, any, error) {
		instance, err := s.Instances.GetInstance(ctx, id)
		return instance, instance, err
	})
	if err != nil {
		return nil, err
	}
	if instance.unchanged {
		return GetInstance304Response{Headers: NotModifiedResponseHeaders{ETag: &instance.etag}}, nil
	}
	return GetInstance200JSONResponse{Body: instance.value, Headers: GetInstance200ResponseHeaders{ETag: &instance.etag}}, nil
}

// DeleteInstance forgets an instance, and the files that only it had.
func (s *Handler) DeleteInstance(ctx context.Context, r DeleteInstanceRequestObject) (DeleteInstanceResponseObject, error) {
	if err := s.Instances.DeleteInstance(ctx, canonical(r.VnfInstanceID), conditions(r.Params.IfMatch, nil)...); err != nil {
		return nil, err
	}
	s.collect(ctx)
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

// GetClusterAccess shows how a VIM uses the instance's cluster.
func (s *Handler) GetClusterAccess(ctx context.Context, r GetClusterAccessRequestObject) (GetClusterAccessResponseObject, error) {
	access, err := s.Instances.ClusterAccess(ctx, canonical(r.VnfInstanceID))
	if err != nil {
		return nil, err
	}
	return GetClusterAccess200JSONResponse(access), nil
}

// PostOperation starts one phase of an operation, or joins it.
func (s *Handler) PostOperation(ctx context.Context, r PostOperationRequestObject) (PostOperationResponseObject, error) {
	id := canonical(r.VnfInstanceID)
	if err := useKeyOfHeader(r.Params.IdempotencyKey, r.Body); err != nil {
		return nil, err
	}
	operation, err := s.Operations.PostOperation(ctx, id, *r.Body)
	if err != nil {
		return nil, err
	}
	location := fmt.Sprintf("%s/operations/%d", instancePath(id), operation.Sequence)
	seconds := operationRetrySeconds
	return PostOperation202JSONResponse{
		Body:    operation,
		Headers: PostOperation202ResponseHeaders{Location: &location, RetryAfter: &seconds},
	}, nil
}

// ListInstanceOperations lists the operations of one instance, newest first.
func (s *Handler) ListInstanceOperations(ctx context.Context, r ListInstanceOperationsRequestObject) (ListInstanceOperationsResponseObject, error) {
	p := r.Params
	got, err := list(ctx, s, notify.Operations, asked{p.Limit, p.Marker, p.Wait, p.IfNoneMatch}, operationKey, nil, func() ([]wire.Operation, error) {
		return s.operations(ctx, canonical(r.VnfInstanceID), p.Operation, p.State)
	})
	if err != nil {
		return nil, err
	}
	if got.unchanged {
		return ListInstanceOperations304Response{Headers: NotModifiedResponseHeaders{ETag: &got.etag}}, nil
	}
	return ListInstanceOperations200JSONResponse{Body: wire.OperationList{Items: got.value.items}, Headers: ListInstanceOperations200ResponseHeaders{ETag: &got.etag, Link: got.value.next}}, nil
}

// ListOperations lists all operations, newest first.
func (s *Handler) ListOperations(ctx context.Context, r ListOperationsRequestObject) (ListOperationsResponseObject, error) {
	p := r.Params
	got, err := list(ctx, s, notify.Operations, asked{p.Limit, p.Marker, p.Wait, p.IfNoneMatch}, operationKey, nil, func() ([]wire.Operation, error) {
		return s.operations(ctx, canonical(text(p.VnfInstanceID)), p.Operation, p.State)
	})
	if err != nil {
		return nil, err
	}
	if got.unchanged {
		return ListOperations304Response{Headers: NotModifiedResponseHeaders{ETag: &got.etag}}, nil
	}
	return ListOperations200JSONResponse{Body: wire.OperationList{Items: got.value.items}, Headers: ListOperations200ResponseHeaders{ETag: &got.etag, Link: got.value.next}}, nil
}

// operations are those of an instance, of all for "", of a type and in a state if one is given.
func (s *Handler) operations(ctx context.Context, instance string, kind *wire.OperationType, state *wire.OperationState) ([]wire.Operation, error) {
	items, err := s.Operations.ListOperations(ctx, instance)
	return slices.DeleteFunc(items, func(o wire.Operation) bool { return other(kind, o.Operation) || other(state, o.State) }), err
}

// GetOperation shows one operation; with wait, once it has finished, or has another ETag than the
// caller knows.
func (s *Handler) GetOperation(ctx context.Context, r GetOperationRequestObject) (GetOperationResponseObject, error) {
	known := r.Params.IfNoneMatch
	wait, err := waitOf(r.Params.Wait)
	if err != nil {
		return nil, err
	}
	id := canonical(r.VnfInstanceID)
	var operation wire.Operation
	var etag string
	var unchanged bool
	err = s.hold(ctx, wire.OperationID(id, r.Sequence), wait, func() (bool, error) {
		if operation, err = s.Operations.GetOperation(ctx, id, r.Sequence); err != nil {
			return false, err
		}
		etag, err = etagOf(operation)
		unchanged = known != nil && matches(*known, etag)
		return !unchanged && (known != nil || operation.State != wire.Processing), err
	})
	if err != nil {
		return nil, err
	}
	if unchanged {
		return GetOperation304Response{Headers: NotModifiedResponseHeaders{ETag: &etag}}, nil
	}
	return GetOperation200JSONResponse{Body: operation, Headers: GetOperation200ResponseHeaders{ETag: &etag}}, nil
}
