package daemon

import (
	"time"

	"github.com/nodehitch/nodehitch/agent/backoff"
	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/agent/status"
)

// retry says how long to wait after each kind of trouble.
type retry map[link.Trouble]*backoff.Backoff

// enrollRetry: a controller that cannot be reached and a topology that does not
// name the server yet are the ordinary start of a node's life; the waits are at
// most a quarter of the time waited so far. A token that is refused is not.
func enrollRetry() retry {
	return retry{
		link.Passing:    {Min: time.Second, Max: 5 * time.Minute, Factor: 1.3},
		link.Unexpected: {Min: time.Second, Max: 5 * time.Minute, Factor: 1.3},
		link.Unproven:   {Min: 5 * time.Second, Max: 5 * time.Minute, Factor: 1.5},
		link.Occupied:   {Min: 10 * time.Second, Max: 5 * time.Minute, Factor: 1.5},
		link.Refused:    {Min: time.Minute, Max: time.Hour, Factor: 2},
	}
}

// pollRetry: a node that has lost its controller works on, and asks at the pace
// of a poll; one whose identity is refused keeps what it has.
func pollRetry() retry {
	passing := &backoff.Backoff{Min: time.Second, Max: time.Minute, Factor: 1.5}
	refused := &backoff.Backoff{Min: 5 * time.Second, Max: time.Hour, Factor: 2}
	return retry{link.Passing: passing, link.Unexpected: passing, link.Unproven: refused, link.Occupied: refused, link.Refused: refused}
}

func (r retry) after(err error) time.Duration { return r[link.Judge(err)].Next() }

// spread sets within which time the first attempt lies after the controller was
// lost: it knows how many others will have lost it too.
func (r retry) spread(d time.Duration) { r[link.Passing].Spread = d }

func (r retry) reset() {
	for _, b := range r {
		b.Reset()
	}
}

// failed puts up that the controller does not answer well, and when it is tried
// again. It is logged when it changes, not every time.
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
