package backoff_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodehitch/nodehitch/agent/backoff"
)

func TestGrowsWithinItsBounds(t *testing.T) {
	b := backoff.Backoff{Min: time.Second, Max: time.Minute, Factor: 2}
	for round := range 2 {
		base := time.Second
		for i := range 12 {
			got := b.Next()
			if got < base*8/10 || got > min(time.Minute, base*12/10) {
				t.Errorf("round %d, wait %d: %v, want %v ± 20 %%", round, i, got, base)
			}
			base = min(time.Minute, 2*base)
		}
		b.Reset()
	}
}

func TestJitterSpreads(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 20 {
		seen[backoff.Jitter(time.Minute)] = true
	}
	if len(seen) < 15 {
		t.Errorf("20 waits have %d values", len(seen))
	}
}

func TestSleepEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if err := backoff.Sleep(t.Context(), time.Hour, nil); err != nil || time.Since(begun) != time.Hour {
			t.Errorf("slept %v, %v", time.Since(begun), err)
		}
		wake := make(chan struct{}, 1)
		wake <- struct{}{}
		begun = time.Now()
		if err := backoff.Sleep(t.Context(), time.Hour, wake); err != nil || time.Since(begun) != 0 {
			t.Errorf("woken: slept %v, %v", time.Since(begun), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := backoff.Sleep(ctx, time.Hour, nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("cancelled: slept %v, %v", time.Since(begun), err)
		}
	})
}
