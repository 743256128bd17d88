package httpapi

import "context"

// CancelOperation ends an operation before its deadline.
func (s *Handler) CancelOperation(ctx context.Context, r CancelOperationRequestObject) (CancelOperationResponseObject, error) {
	operation, err := s.Operations.CancelOperation(ctx, canonical(r.VnfInstanceID), r.Sequence, callOf(ctx).who)
	if err != nil {
		return nil, err
	}
	return CancelOperation200JSONResponse(operation), nil
}
