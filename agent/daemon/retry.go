package daemon

import (
	"errors"
	"time"

	"github.com/nodehitch/nodehitch/agent/backoff"
	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/shared/client"
)

// retry has the backoff for each kind of failure.
type retry map[link.Failure]*backoff.Backoff

// enrollRetry is for enrollment. At a node's start the controller is often unreachable
// and the topology often does not list the server yet, so these waits grow slowly. A
// refused token is not normal.
func enrollRetry() retry {
	return retry{
		link.Transient:      {Min: time.Second, Max: 5 * time.Minute, Factor: 1.3},
		link.NotYetExpected: {Min: time.Second, Max: 5 * time.Minute, Factor: 1.3},
		link.NotAttested:    {Min: 5 * time.Second, Max: 5 * time.Minute, Factor: 1.5},
		link.IdentityLive:   {Min: 10 * time.Second, Max: 5 * time.Minute, Factor: 1.5},
		link.Refused:        {Min: time.Minute, Max: time.Hour, Factor: 2},
	}
}

// pollRetry is for polls. A node that has lost its controller continues to converge,
// and retries about as often as it would poll.
func pollRetry() retry {
	passing := &backoff.Backoff{Min: time.Second, Max: time.Minute, Factor: 1.5}
	refused := &backoff.Backoff{Min: 5 * time.Second, Max: time.Hour, Factor: 2}
	return retry{link.Transient: passing, link.NotYetExpected: passing, link.NotAttested: refused, link.IdentityLive: refused, link.Refused: refused}
}

// after is how long to wait after a failed call: at least as long as the controller says to
// a caller that is too fast.
func (r retry) after(err error) time.Duration {
	wait := r[link.Classify(err)].Next()
	var limited *client.TooMany
	if errors.As(err, &limited) {
		return max(wait, limited.RetryAfter)
	}
	return wait
}

// spread sets the time over which the first attempts of all agents are spread after
// the controller was lost. The controller chooses it by the number of agents.
func (r retry) spread(d time.Duration) { r[link.Transient].Spread = d }

func (r retry) reset() {
	for _, b := range r {
		b.Reset()
	}
}

// failed shows in the status why contact with the controller failed and when the next
// attempt is. It logs only changes.
func (d *Daemon) failed(err error, wait time.Duration) {
	d.once.Do(func() { close(d.asked) })
	text := err.Error()
	said := false
	d.board.Change(func(s *status.Status) {
		next := time.Now().Add(wait).UTC()
		said = s.Controller.LastError == text
		s.Controller.Connected, s.Controller.LastError, s.Controller.NextAttempt = false, text, &next
	})
	if !said {
		d.Log.Warn("the controller is not available", "error", text, "retryIn", wait.Round(time.Second))
	}
}
