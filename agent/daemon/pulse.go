package daemon

import (
	"context"
	"sync"
	"time"
)

// pulse knows by when each loop has to show that it turns. The zero value is ready.
type pulse struct {
	mu  sync.Mutex
	due map[string]time.Time
}

// beat shows that the loop turns, and says when it will at the latest again.
func (p *pulse) beat(loop string, within time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.due == nil {
		p.due = map[string]time.Time{}
	}
	p.due[loop] = time.Now().Add(within)
}

// stuck is a loop that is overdue, "" where all turn.
func (p *pulse) stuck() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for loop, due := range p.due {
		if time.Now().After(due) {
			return loop
		}
	}
	return ""
}

// watching tells the service manager that the loops turn, as long as they do.
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
		if loop := d.pulse.stuck(); loop != "" {
			d.Log.Error("watchdog: a loop is stuck; systemd restarts the agent", "loop", loop)
			continue
		}
		d.Notify("WATCHDOG=1")
	}
}
