package daemon

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestWatchdogIsFedOnlyWhileTheLoopsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fed := 0
		d := &Daemon{Options: Options{
			Watchdog: 60 * time.Second, Log: slog.New(slog.DiscardHandler),
			Notify: func(s string) {
				if s == "WATCHDOG=1" {
					fed++
				}
			},
		}}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = d.watching(ctx) }()
		d.watchdog.alive("contact", time.Hour)
		d.watchdog.alive("converging", 90*time.Second)
		time.Sleep(89 * time.Second) // of the bubble's clock
		synctest.Wait()
		if fed != 4 {
			t.Errorf("fed %d times in 89 s, want 4", fed)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if fed != 4 {
			t.Errorf("fed %d times although a loop hangs", fed-4)
		}
		d.watchdog.alive("converging", time.Hour)
		time.Sleep(time.Minute)
		synctest.Wait()
		if fed != 7 {
			t.Errorf("fed %d times in the minute after, want 3", fed-4)
		}
	})
}

// The waits of a node that boots before its topology, and of one that is refused.
func TestWaitsBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			retry       retry
			err         error
			first, last time.Duration
			within      time.Duration // the time in which `attempts` are made
			attempts    int
		}{
			"not expected yet":   {enrollRetry(), api.NewProblem(api.ProblemServerNotExpected, ""), time.Second, 5 * time.Minute, time.Minute, 12},
			"unreachable":        {enrollRetry(), context.DeadlineExceeded, time.Second, 5 * time.Minute, time.Minute, 12},
			"token not accepted": {enrollRetry(), api.NewProblem(api.ProblemUnauthorized, ""), time.Minute, time.Hour, time.Hour, 5},
			"identity is live":   {enrollRetry(), api.NewProblem(api.ProblemIdentityLive, ""), 10 * time.Second, 5 * time.Minute, time.Minute, 2},
			"controller lost":    {pollRetry(), context.DeadlineExceeded, time.Second, time.Minute, time.Minute, 9},
			"revoked":            {pollRetry(), api.NewProblem(api.ProblemRevoked, ""), 5 * time.Second, time.Hour, time.Hour, 8},
		} {
			first := c.retry.after(c.err)
			begun := time.Now()
			time.Sleep(first)
			attempts := 1
			wait := first
			for range 60 {
				if time.Since(begun) <= c.within {
					attempts++
				}
				wait = c.retry.after(c.err)
				time.Sleep(wait)
			}
			if !near(first, c.first) || !near(wait, c.last) {
				t.Errorf("%s: waits from %v to %v, want %v to %v", name, first, wait, c.first, c.last)
			}
			if attempts < c.attempts-2 || attempts > c.attempts+2 {
				t.Errorf("%s: %d attempts in %v, want about %d", name, attempts, c.within, c.attempts)
			}
			c.retry.reset()
			if again := c.retry.after(c.err); !near(again, c.first) {
				t.Errorf("%s: after a success %v", name, again)
			}
		}
	})
}

func near(got, want time.Duration) bool { return got >= want*79/100 && got <= want*121/100 }

func TestTroubleIsLoggedWhenItChanges(t *testing.T) {
	var lines counter
	d := &Daemon{Options: Options{Log: slog.New(slog.NewTextHandler(&lines, nil))}, board: status.NewBoard(api.Facts{}, nil), asked: make(chan struct{})}
	for _, text := range []string{"a", "a", "b", "b", "a"} {
		d.failed(api.NewProblem(api.ProblemUnavailable, text), time.Second)
	}
	if lines != 3 {
		t.Errorf("%d lines, want 3", lines)
	}
	if link.Classify(api.NewProblem(api.ProblemUnavailable, "")) != link.Transient {
		t.Error("unavailable is no passing trouble")
	}
}

type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c++
	return len(p), nil
}

// An hour without a controller: attempts become rare, and the end of the outage is
// noticed soon anyway.
func TestAnHourWithoutTheController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pollRetry()
		begun, attempts, late := time.Now(), 0, 0
		var longest time.Duration
		for time.Since(begun) < time.Hour {
			wait := r.after(context.DeadlineExceeded)
			longest = max(longest, wait)
			time.Sleep(10*time.Second + wait) // as long as it takes to find that nothing answers
			attempts++
			if time.Since(begun) > 50*time.Minute {
				late++
			}
		}
		if attempts > 75 || attempts < 45 || late > 12 || longest > time.Minute {
			t.Errorf("%d attempts in an hour, %d in the last ten minutes, waits up to %v", attempts, late, longest)
		}
	})
}
