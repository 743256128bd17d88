package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nodehitch/nodehitch/agent/backoff"
	"github.com/nodehitch/nodehitch/agent/connection/enroll"
	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/agent/connection/pull"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/shared/api"
)

// renewal is when a renewal that failed may be tried again.
type renewal struct {
	notBefore time.Time
	backoff   backoff.Backoff
}

// renew renews the certificate where it is time to, by proof of the present key;
// the controller takes an expired certificate for that too. The old key is given
// up only after the new certificate has made a good call. A failure is no reason
// not to poll: the present certificate has a third of its life left.
func (l *line) renew(ctx context.Context) {
	now := time.Now()
	if l.renewal.backoff.Min == 0 {
		l.renewal.backoff = backoff.Backoff{Min: 5 * time.Second, Max: 15 * time.Minute, Factor: 2}
	}
	pending, err := l.next()
	if pending == nil && err == nil && now.Before(l.credentials.RenewAt()) || now.Before(l.renewal.notBefore) {
		return
	}
	if err == nil && pending == nil {
		pending, err = enroll.Renew(ctx, l.link, l.files)
	}
	if err == nil {
		err = l.prove(ctx, pending)
	}
	if err != nil && ctx.Err() == nil {
		wait := l.renewal.backoff.Next()
		l.renewal.notBefore = now.Add(wait)
		l.board.Change(func(s *status.Status) { s.Controller.RenewalError = err.Error() })
		l.Log.Warn("the certificate is not renewed", "error", err, "notAfter", l.credentials.NotAfter(), "retryIn", wait.Round(time.Second))
	}
}

// next are credentials that were renewed and not used yet. Damaged ones, and those
// of another node, are given up: the controller holds the present certificate good
// until another is used.
func (l *line) next() (*enroll.Credentials, error) {
	pending, err := l.files.Next()
	var damaged *state.Damaged
	switch {
	case errors.As(err, &damaged):
	case pending != nil && pending.NodeID() != l.credentials.NodeID():
		err = fmt.Errorf("it is of node %s", pending.NodeID())
	default:
		return pending, err
	}
	l.Log.Warn("the renewed certificate cannot be used, another is asked for", "error", err)
	return nil, l.files.Drop()
}

// prove makes one call with the next credentials and adopts them if it is good.
func (l *line) prove(ctx context.Context, next *enroll.Credentials) error {
	trial, err := link.New(l.linkOptions(next))
	if err != nil {
		return err
	}
	defer trial.Close()
	answer, err := pull.Poll(ctx, trial, pull.Request{Limit: link.ShortCall})
	if err != nil {
		if link.Judge(err) == link.Refused {
			err = errors.Join(err, l.files.Drop())
		}
		return err
	}
	if err := l.files.Adopt(); err != nil {
		return err
	}
	l.renewal = renewal{}
	l.Log.Info("certificate renewed", "event", api.EventCertificateRenewed, "serial", next.Serial(), "notAfter", next.NotAfter())
	if err := l.use(next); err != nil {
		return err
	}
	l.well()
	l.take(answer)
	return nil
}
