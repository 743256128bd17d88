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

// renewal is when a failed renewal may be tried again.
type renewal struct {
	nextAttempt time.Time
	backoff     backoff.Backoff
}

// renew renews the certificate if it is due, with the present key; the controller
// accepts an expired certificate for this. The old key is removed only after a call
// with the new certificate has succeeded. After a failure polling continues: the
// present certificate has a third of its lifetime left. A build on probation renews
// nothing, because a roll-back brings the identity of before back.
func (c *connection) renew(ctx context.Context) {
	if c.Upgrade.OnProbation() {
		return
	}
	now := time.Now()
	if c.renewal.backoff.Min == 0 {
		c.renewal.backoff = backoff.Backoff{Min: 5 * time.Second, Max: 15 * time.Minute, Factor: 2}
	}
	pending, err := c.next()
	if pending == nil && err == nil && now.Before(c.credentials.RenewAt()) || now.Before(c.renewal.nextAttempt) {
		return
	}
	if err == nil && pending == nil {
		pending, err = enroll.Renew(ctx, c.link, c.files)
	}
	if err == nil {
		err = c.confirmRenewal(ctx, pending)
	}
	if err != nil && ctx.Err() == nil {
		wait := c.renewal.backoff.Next()
		c.renewal.nextAttempt = now.Add(wait)
		c.board.Change(func(s *status.Status) { s.Controller.RenewalError = err.Error() })
		c.Log.Warn("the certificate could not be renewed", "error", err, "notAfter", c.credentials.NotAfter(), "retryIn", wait.Round(time.Second))
	}
}

// next returns renewed credentials that are not in use yet. Damaged ones and those of
// another node are dropped: the present certificate stays valid until another is used.
func (c *connection) next() (*enroll.Credentials, error) {
	pending, err := c.files.Next()
	var damaged *state.Damaged
	switch {
	case errors.As(err, &damaged):
	case pending != nil && pending.NodeID() != c.credentials.NodeID():
		err = fmt.Errorf("it belongs to node %s", pending.NodeID())
	default:
		return pending, err
	}
	c.Log.Warn("the renewed certificate cannot be used; requesting another", "error", err)
	return nil, c.files.Drop()
}

// confirmRenewal makes one call with the next credentials and adopts them if it
// succeeds.
func (c *connection) confirmRenewal(ctx context.Context, next *enroll.Credentials) error {
	trial, err := link.New(c.linkOptions(next))
	if err != nil {
		return err
	}
	defer trial.Close()
	answer, err := pull.Poll(ctx, trial, pull.Request{Limit: link.ShortCall})
	if err != nil {
		if link.Classify(err) == link.Refused {
			err = errors.Join(err, c.files.Drop())
		}
		return err
	}
	if err := c.files.Adopt(); err != nil {
		return err
	}
	c.renewal = renewal{}
	c.Log.Info("certificate renewed", "event", api.EventCertificateRenewed, "serial", next.Serial(), "notAfter", next.NotAfter())
	if err := c.use(next); err != nil {
		return err
	}
	c.onSuccess()
	c.take(answer)
	return nil
}
