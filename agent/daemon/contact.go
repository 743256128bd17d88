package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/nodehitch/nodehitch/agent/backoff"
	"github.com/nodehitch/nodehitch/agent/connection/enroll"
	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/agent/connection/pull"
	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/sleep"
)

const (
	defaultHold = 5 * time.Minute // until the controller says how long it holds a poll
	holdMargin  = 30 * time.Second
	// shortestPoll limits the request rate if the controller answers every poll at once.
	shortestPoll = time.Second
)

// connection is the state of the contact with the controller.
type connection struct {
	*Daemon
	credentials *enroll.Credentials
	link        *link.Link
	// digest of the newest document, "" after a failure: then the controller answers
	// the next poll at once, which confirms the document in force.
	digest     string
	generation int64 // of that document, 0 if it could not be read
	timeout    pollTimeout
	spread     time.Duration // over which agents spread their reconnections
	retry      retry
	renewal    renewal
	learned    learning
}

// contact stays connected to the controller: it enrolls if there is no certificate,
// then polls, and renews the certificate between polls. Losing the controller never
// removes anything from the machine.
func (d *Daemon) contact(ctx context.Context) error {
	var epoch int64
	if doc := d.desired.document(); doc != nil {
		epoch = doc.Epoch
	}
	c := &connection{Daemon: d, timeout: pollTimeout{hold: defaultHold}, retry: pollRetry(), learned: d.recall(epoch)}
	current, err := d.credentials(ctx)
	if err != nil {
		return err
	}
	if err := d.files.Tidy(); err != nil {
		d.Log.Warn("a leftover key could not be removed", "error", err)
	}
	if err := c.use(current); err != nil {
		return err
	}
	for {
		d.watchdog.alive("contact", c.timeout.limit(true)+2*holdMargin+longestPlan)
		c.renew(ctx)
		wait := c.poll(ctx)
		d.watchdog.alive("contact", wait+longestPlan)
		if err := sleep.For(ctx, wait, nil); err != nil {
			return err
		}
	}
}

// use switches every further call to these credentials.
func (c *connection) use(creds *enroll.Credentials) error {
	options := c.linkOptions(creds)
	next, err := link.New(options)
	if err != nil {
		return err
	}
	old := c.link
	c.credentials, c.link = creds, next
	c.Daemon.link.Store(next)
	c.Upgrade.Use(next)
	if c.OnLink != nil {
		c.OnLink(next)
	}
	if old != nil {
		old.Close()
	}
	c.board.Change(func(s *status.Status) {
		notAfter := creds.NotAfter()
		s.Controller.Damaged, s.Controller.RenewalError = "", ""
		s.Controller.CertificateSerial, s.Controller.CertificateNotAfter = creds.Serial(), &notAfter
		s.Controller.URLs, s.Controller.Learned = options.URLs, options.URLs[:len(options.URLs)-len(c.Config.ControllerURLs)]
	})
	return nil
}

// linkOptions are the options of a link with these credentials. Learned URLs come before
// the configured ones.
func (c *connection) linkOptions(creds *enroll.Credentials) link.Options {
	o := c.Daemon.linkOptions()
	o.URLs, o.Certificate = c.learned.urls(o.URLs), creds.TLS
	return o
}

// linkOptions are the options of a link without credentials.
func (d *Daemon) linkOptions() link.Options {
	return link.Options{URLs: d.Config.ControllerURLs, RootPEM: []byte(d.Config.RootCertificate), Pin: d.Config.Pin, Dial: d.Dial}
}

// poll polls once and returns how long to wait before the next poll.
func (c *connection) poll(ctx context.Context) time.Duration {
	begun, long := time.Now(), c.digest != ""
	answer, err := pull.Poll(ctx, c.link, pull.Request{Digest: c.digest, Generation: c.generation, Wait: c.timeout.wait(), Limit: c.timeout.limit(long)})
	if ctx.Err() != nil {
		return 0
	}
	if err != nil {
		c.cutOff(err, long, answer.Waited)
		return c.onFailure(ctx, err)
	}
	if long {
		c.timeout.held(answer.Waited, time.Now())
	}
	c.onSuccess()
	another := c.take(answer)
	c.once.Do(func() { close(c.asked) })
	c.useHeaders(ctx, answer)
	if another || time.Since(begun) >= shortestPoll {
		if answer.Closing {
			// The controller stops, and tells all other agents so.
			return backoff.Within(max(c.spread, shortestPoll))
		}
		return 0
	}
	return backoff.Jitter(shortestPoll)
}

// cutOff shortens the polls if long polls are cut off between agent and controller.
func (c *connection) cutOff(err error, long bool, after time.Duration) {
	switch {
	case !long || after == 0:
		c.timeout.away()
	case link.Classify(err) != link.Transient || client.Status(err) != 0: // the controller answered
	case c.timeout.lost(after, time.Now()):
		c.Log.Warn("something between agent and controller closes idle connections; using shorter polls",
			"after", after.Round(time.Second), "hold", c.timeout.wait(), "advice", "set the controller's pollSeconds below its idle timeout")
	}
}

// take applies an answer and reports whether it has another document.
func (c *connection) take(a pull.Answer) bool {
	if a.Hold > 0 {
		c.timeout.hold = a.Hold
	}
	if a.Spread > 0 {
		c.spread = a.Spread
		c.retry.spread(a.Spread)
	}
	c.desired.every(a.Converge)
	another := a.Digest != c.digest
	if a.Digest != "" {
		c.digest = a.Digest
	}
	switch {
	case a.Invalid != nil:
		c.generation = a.Invalid.Generation
		message := "the agent does not understand the configuration, so the previous one stays in force:\n" + a.Invalid.Faults.Error()
		if another {
			c.Log.Error("refused the controller's configuration", "generation", a.Invalid.Generation, "faults", a.Invalid.Faults)
		}
		c.board.Invalid(a.Invalid.Generation, a.Invalid.Epoch, a.Digest, message)
	case a.Document != nil:
		another = another || a.Document.Generation != c.generation
		c.generation = a.Document.Generation
		c.board.Observed(a.Document, a.Digest)
		c.desired.put(a.Document, a.Digest)
		c.desired.confirm(true)
	default:
		c.desired.confirm(true)
	}
	return another
}

// onSuccess records that the controller answered.
func (c *connection) onSuccess() {
	c.retry.reset()
	resumed := false
	c.board.Change(func(s *status.Status) {
		now := time.Now().UTC()
		resumed = !s.Controller.Connected
		s.Controller.URL, s.Controller.Connected, s.Controller.LastContact = c.link.URL(), true, &now
		s.Controller.LastError, s.Controller.NextAttempt = "", nil
		s.Controller.HoldSeconds = int(c.timeout.wait().Seconds())
	})
	if resumed {
		c.Log.Info("the controller answers", "url", c.link.URL())
		select {
		case c.resumed <- struct{}{}:
		default:
		}
	}
}

// onFailure records a failed poll and returns how long to wait. If the identity was
// refused, an operator may have allowed a new one, so it tries the join token.
func (c *connection) onFailure(ctx context.Context, err error) time.Duration {
	c.digest = ""
	c.desired.confirm(false)
	c.link.Close() // idle connections may be dead too, and finding out would take half a minute
	if link.Classify(err) == link.Refused && c.Config.JoinToken != "" {
		if fresh, enrollError := c.enroll(ctx); enrollError == nil {
			c.Log.Info("enrolled again", "after", err)
			if err = c.use(fresh); err == nil {
				return 0
			}
		} else {
			// The refusal of the enrollment says what the operator can do.
			err = fmt.Errorf("%w; enrolling again failed: %w", err, enrollError)
		}
	}
	wait := c.retry.after(err)
	c.failed(err, wait)
	return wait
}
