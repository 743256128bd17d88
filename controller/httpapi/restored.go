package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/nodehitch/nodehitch/controller/backup"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// GetBackup streams a copy of the state.
func (s *Handler) GetBackup(ctx context.Context, _ GetBackupRequestObject) (GetBackupResponseObject, error) {
	taken, err := s.Backups.Take(ctx)
	if err != nil {
		return nil, err
	}
	return backupAnswer{ctx: ctx, copy: taken, log: s.Log, head: callOf(ctx).request.Method == http.MethodHead}, nil
}

// backupAnswer is a backup on its way. It never lies in memory.
type backupAnswer struct {
	ctx  context.Context // of the one request that it answers
	copy *backup.Copy
	log  *slog.Logger
	head bool // asked for without its content
}

// VisitGetBackupResponse writes the answer to getBackup. If that fails in the middle, the
// connection is closed, because the status has already been sent.
func (a backupAnswer) VisitGetBackupResponse(w http.ResponseWriter) error {
	defer a.copy.Close() //nolint:errcheck // it was only read
	w.Header().Set("Content-Type", "application/x-tar")
	w.WriteHeader(http.StatusOK)
	if a.head {
		return nil
	}
	if err := a.copy.Deliver(a.ctx, w); err != nil {
		a.log.WarnContext(a.ctx, "a backup was not written to its end", "error", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

// ConfirmInstance lets the nodes of a restored instance in again.
func (s *Handler) ConfirmInstance(ctx context.Context, r ConfirmInstanceRequestObject) (ConfirmInstanceResponseObject, error) {
	instance, err := s.Instances.ConfirmInstance(ctx, canonical(r.VnfInstanceID))
	if err != nil {
		return nil, err
	}
	return ConfirmInstance200JSONResponse(instance), nil
}

// ConfirmToken makes a restored API token good again.
func (s *Handler) ConfirmToken(ctx context.Context, r ConfirmTokenRequestObject) (ConfirmTokenResponseObject, error) {
	token, err := s.Tokens.Confirm(ctx, r.TokenID)
	if err != nil {
		return nil, err
	}
	return ConfirmToken200JSONResponse(token), nil
}

// isUnconfirmed says that the caller is known, but refused until an operator
// has confirmed what was restored.
func isUnconfirmed(err error) bool {
	var p *wire.Problem
	return errors.As(err, &p) && p.Type == wire.ProblemRestoreUnconfirmed
}
