package serve

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notifySystemd tells systemd about the service's state; without systemd it does
// nothing. sd_notify(3) has the states.
func notifySystemd(state string, log *slog.Logger) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("systemd was not told", "state", state, "error", err)
	}
}

// starting returns a function that asks systemd to wait for a start that takes long, a minute
// from each call on. It is for calls in a row; few of them reach systemd.
func starting(log *slog.Logger) func() {
	var asked time.Time
	return func() {
		if time.Since(asked) < 10*time.Second {
			return
		}
		asked = time.Now()
		notifySystemd("EXTEND_TIMEOUT_USEC=60000000", log)
	}
}

// watchdog tells systemd at half of the unit's WatchdogSec= that the controller
// lives, only while check succeeds. A controller that hangs is started again.
func watchdog(ctx context.Context, check func(context.Context) error, log *slog.Logger) error {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the unit's watchdog setting is not valid; the watchdog is not served", "error", err)
	}
	if interval <= 0 {
		return nil
	}
	tick := time.NewTicker(interval / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := within(ctx, interval/4, check); err != nil {
			log.Error("the store does not answer; the watchdog will end this process", "error", err, "pid", os.Getpid())
			continue
		}
		notifySystemd(daemon.SdNotifyWatchdog, log)
	}
}

// within is check's answer, or that there was none in time.
func within(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer := make(chan error, 1)
	go func() { answer <- check(ctx) }()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
