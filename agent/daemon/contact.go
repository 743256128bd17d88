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
)

const (
	defaultHold = 5 * time.Minute // before the controller has said how long it holds a poll
	holdMargin  = 30 * time.Second
	// shortestPoll keeps a controller that answers at once, for whatever reason,
	// from being asked without end.
	shortestPoll = time.Second
)

// line is the contact with the controller.
type line struct {
	*Daemon
	credentials *enroll.Credentials
	link        *link.Link
	// digest of the newest document, "" after trouble: then the next poll is
	// answered at once, which confirms the document in force.
	digest     string
	generation int64 // of that document, 0 for one that could not be read
	patience   patience
	spread     time.Duration // over which agents come back that lost the controller
	retry      retry
	renewal    renewal
	learned    learning
}

// contact keeps the line to the controller: it enrolls where there is no
// certificate, then polls, and renews between polls. Whatever the controller
// answers, nothing on the machine is removed for want of it.
func (d *Daemon) contact(ctx context.Context) error {
	var epoch int64
	if doc := d.desired.document(); doc != nil {
		epoch = doc.Epoch
	}
	l := &line{Daemon: d, patience: patience{hold: defaultHold}, retry: pollRetry(), learned: d.recall(epoch)}
	current, err := d.credentials(ctx)
	if err != nil {
		return err
	}
	if err := d.files.Tidy(); err != nil {
		d.Log.Warn("a key is there twice", "error", err)
	}
	if err := l.use(current); err != nil {
		return err
	}
	for {
		d.pulse.beat("contact", l.patience.limit(true)+2*holdMargin+longestPlan)
		l.renew(ctx)
		wait := l.poll(ctx)
		d.pulse.beat("contact", wait+longestPlan)
		if err := backoff.Sleep(ctx, wait, nil); err != nil {
			return err
		}
	}
}

// use makes these credentials those of every further call.
func (l *line) use(c *enroll.Credentials) error {
	next, err := link.New(l.linkOptions(c))
	if err != nil {
		return err
	}
	old := l.link
	l.credentials, l.link = c, next
	l.Daemon.link.Store(next)
	if l.OnLink != nil {
		l.OnLink(next)
	}
	if old != nil {
		old.Close()
	}
	l.board.Change(func(s *status.Status) {
		notAfter := c.NotAfter()
		s.Controller.Damaged, s.Controller.RenewalError = "", ""
		s.Controller.CertificateSerial, s.Controller.CertificateNotAfter = c.Serial(), &notAfter
	})
	return nil
}

// linkOptions are those of a link with these credentials, to the learned URLs before the
// configured ones.
func (l *line) linkOptions(c *enroll.Credentials) link.Options {
	o := l.Daemon.linkOptions()
	o.URLs, o.Certificate = l.learned.urls(o.URLs), c.TLS
	return o
}

// linkOptions are those of a link without credentials.
func (d *Daemon) linkOptions() link.Options {
	return link.Options{URLs: d.Config.ControllerURLs, RootPEM: []byte(d.Config.RootCertificate), Pin: d.Config.Pin, Dial: d.Dial}
}

// poll polls once and returns how long to wait for the next time.
func (l *line) poll(ctx context.Context) time.Duration {
	begun, parked := time.Now(), l.digest != ""
	answer, err := pull.Poll(ctx, l.link, pull.Request{Digest: l.digest, Generation: l.generation, Wait: l.patience.wait(), Limit: l.patience.limit(parked)})
	if ctx.Err() != nil {
		return 0
	}
	if err != nil {
		l.cutOff(err, parked, answer.Waited)
		return l.troubled(ctx, err)
	}
	if parked {
		l.patience.held(answer.Waited, time.Now())
	}
	l.well()
	another := l.take(answer)
	l.once.Do(func() { close(l.asked) })
	l.told(ctx, answer)
	if another || time.Since(begun) >= shortestPoll {
		if answer.Closing {
			// It stops or restarts, and all the others are told the same.
			return backoff.Within(max(l.spread, shortestPoll))
		}
		return 0
	}
	return backoff.Jitter(shortestPoll)
}

// cutOff sees to polls that die on the way.
func (l *line) cutOff(err error, parked bool, after time.Duration) {
	switch {
	case !parked || after == 0:
		l.patience.away()
	case link.Judge(err) != link.Passing || client.Status(err) != 0: // somebody answered
	case l.patience.lost(after, time.Now()):
		l.Log.Warn("polls are cut off on their way: something there gives up connections that are silent; shorter polls are asked for",
			"after", after.Round(time.Second), "hold", l.patience.wait(), "advice", "set the controller's pollSeconds below its idle timeout")
	}
}

// take puts an answer to use; true where it brought another document.
func (l *line) take(a pull.Answer) bool {
	if a.Hold > 0 {
		l.patience.hold = a.Hold
	}
	if a.Spread > 0 {
		l.spread = a.Spread
		l.retry.spread(a.Spread)
	}
	l.desired.every(a.Converge)
	another := a.Digest != l.digest
	if a.Digest != "" {
		l.digest = a.Digest
	}
	switch {
	case a.Invalid != nil:
		l.generation = a.Invalid.Generation
		message := "the configuration is not understood, so the one before stays in force:\n" + a.Invalid.Faults.Error()
		if another {
			l.Log.Error("the controller's configuration is refused", "generation", a.Invalid.Generation, "faults", a.Invalid.Faults)
		}
		l.board.Invalid(a.Invalid.Generation, a.Invalid.Epoch, a.Digest, message)
	case a.Document != nil:
		another = another || a.Document.Generation != l.generation
		l.generation = a.Document.Generation
		l.board.Observed(a.Document, a.Digest)
		l.desired.put(a.Document, a.Digest)
		l.desired.confirm(true)
	default:
		l.desired.confirm(true)
	}
	return another
}

// well notes that the controller answered.
func (l *line) well() {
	l.retry.reset()
	resumed := false
	l.board.Change(func(s *status.Status) {
		now := time.Now().UTC()
		resumed = !s.Controller.Connected
		s.Controller.URL, s.Controller.Connected, s.Controller.LastContact = l.link.URL(), true, &now
		s.Controller.LastError, s.Controller.NextAttempt = "", nil
		s.Controller.HoldSeconds = int(l.patience.wait().Seconds())
	})
	if resumed {
		l.Log.Info("the controller answers", "url", l.link.URL())
		select {
		case l.resumed <- struct{}{}:
		default:
		}
	}
}

// troubled notes that a poll failed and returns how long to wait. An identity
// that is refused may have been released to be made anew, so the join token is
// tried again then.
func (l *line) troubled(ctx context.Context, err error) time.Duration {
	l.digest = ""
	l.desired.confirm(false)
	l.link.Close() // what was idle meanwhile may be as dead, and would cost half a minute to find out
	if link.Judge(err) == link.Refused && l.Config.JoinToken != "" {
		if fresh, enrollError := l.enroll(ctx); enrollError == nil {
			l.Log.Info("enrolled anew", "after", err)
			if err = l.use(fresh); err == nil {
				return 0
			}
		} else {
			// What the controller says of that is what a person can do about it.
			err = fmt.Errorf("%w; nor may the machine enroll anew: %w", err, enrollError)
		}
	}
	wait := l.retry.after(err)
	l.failed(err, wait)
	return wait
}
