package daemon

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/agent/connection/pull"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/sleep"
)

const (
	// gather is how long changes are collected before they are reported.
	gather = 150 * time.Millisecond
	// reportLimit is how long one report with all its attempts may take.
	reportLimit = 10 * time.Minute
)

// reporting sends the status when it has changed; the polls are the heartbeat. It also
// sends it over each new link, because a new identity starts without a status.
func (d *Daemon) reporting(ctx context.Context) error {
	changed := d.board.Subscribe()
	retry := pollRetry()
	var sent *api.NodeStatus
	var sentOver *link.Link
	var wait time.Duration
	var wake <-chan struct{} // ends the wait
	var failure string
	for {
		d.watchdog.alive("reporting", idle+reportLimit)
		if err := d.awaitReport(ctx, changed, wait, wake); err != nil {
			return err
		}
		wait = 0
		d.watchdog.alive("reporting", reportLimit)
		status, ok := d.board.Report()
		l := d.link.Load()
		if !ok || l == nil || sent != nil && l == sentOver && reflect.DeepEqual(*sent, status) {
			continue
		}
		if !d.board.Snapshot().Controller.Connected {
			continue // the contact loop reconnects
		}
		err := pull.Report(ctx, l, status)
		if err == nil {
			sent, sentOver, failure = &status, l, ""
			retry.reset()
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		wait, wake = retry.after(err), d.resumed
		if client.Status(err) == http.StatusTooManyRequests {
			wake = nil // that the controller answers is no reason to report sooner
		}
		if err.Error() != failure {
			failure = err.Error()
			d.Log.Warn("the status could not be reported", "error", err, "retryIn", wait.Round(time.Second))
		}
	}
}

// awaitReport returns when there may be something to report: after a change, when
// the controller answers again, or when a failed report is due again (after > 0) or wake says so.
func (d *Daemon) awaitReport(ctx context.Context, changed <-chan struct{}, after time.Duration, wake <-chan struct{}) error {
	if after > 0 {
		return sleep.For(ctx, after, wake)
	}
	timer := time.NewTimer(idle)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-changed:
	case <-d.resumed:
	case <-timer.C:
	}
	return sleep.For(ctx, gather, nil)
}
