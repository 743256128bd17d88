package daemon

import (
	"context"
	"sync"
	"time"
)

// watchdog has the time by which each loop has to call alive again. The zero value is
// ready.
type watchdog struct {
	mu  sync.Mutex
	due map[string]time.Time
}

// alive records that the loop runs and will call again within the given time.
func (w *watchdog) alive(loop string, within time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.due == nil {
		w.due = map[string]time.Time{}
	}
	w.due[loop] = time.Now().Add(within)
}

// stuck is a loop that is overdue, "" if there is none.
func (w *watchdog) stuck() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for loop, due := range w.due {
		if time.Now().After(due) {
			return loop
		}
	}
	return ""
}

// watching notifies the service manager's watchdog as long as no loop is stuck.
func (d *Daemon) watching(ctx context.Context) error {
	if d.Watchdog <= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	ticker := time.NewTicker(d.Watchdog / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		if loop := d.watchdog.stuck(); loop != "" {
			d.Log.Error("watchdog: a loop is stuck; systemd restarts the agent", "loop", loop)
			continue
		}
		d.Notify("WATCHDOG=1")
	}
}
