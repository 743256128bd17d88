package daemon

import (
	"context"
	"reflect"
	"time"

	"github.com/nodehitch/nodehitch/agent/backoff"
	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/agent/connection/pull"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	// gather is how long changes are gathered before they are reported.
	gather = 150 * time.Millisecond
	// reportLimit bounds one report with all its attempts, for the watchdog.
	reportLimit = 10 * time.Minute
)

// reporting tells the controller what changed. What it has told it does not tell
// again: the polls are the heartbeat. A new link is told all the same, for its
// identity may be a new one, for which nothing counts that the old one has said.
func (d *Daemon) reporting(ctx context.Context) error {
	changed := d.board.Subscribe()
	retry := pollRetry()
	var told *api.NodeStatus
	var toldOver *link.Link
	var wait time.Duration
	var failure string
	for {
		d.pulse.beat("reporting", idle+reportLimit)
		if err := d.awaitReport(ctx, changed, wait); err != nil {
			return err
		}
		wait = 0
		d.pulse.beat("reporting", reportLimit)
		status, ok := d.board.Report()
		l := d.link.Load()
		if !ok || l == nil || told != nil && l == toldOver && reflect.DeepEqual(*told, status) {
			continue
		}
		if !d.board.Snapshot().Controller.Connected {
			continue // the poll finds the controller again; two of us need not look for it
		}
		err := pull.Report(ctx, l, status)
		if err == nil {
			told, toldOver, failure = &status, l, ""
			retry.reset()
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		wait = retry.after(err)
		if err.Error() != failure {
			failure = err.Error()
			d.Log.Warn("the status is not reported", "error", err, "retryIn", wait.Round(time.Second))
		}
	}
}

// awaitReport returns when there may be something to report: after a change, when
// the controller answers again, or when a failed report is due again (after > 0).
func (d *Daemon) awaitReport(ctx context.Context, changed <-chan struct{}, after time.Duration) error {
	if after > 0 {
		return backoff.Sleep(ctx, after, d.resumed)
	}
	timer := time.NewTimer(idle)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-changed:
	case <-d.resumed:
	case <-timer.C:
	}
	return backoff.Sleep(ctx, gather, nil)
}
