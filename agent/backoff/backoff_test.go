package backoff_test

import (
	"testing"
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

func TestTheFirstWaitIsAnywhereInTheSpread(t *testing.T) {
	b := backoff.Backoff{Min: time.Second, Max: time.Minute, Factor: 2, Spread: 10 * time.Second}
	tenths := map[time.Duration]int{}
	for range 1000 {
		first := b.Next()
		tenths[first/time.Second]++
		if second := b.Next(); second < 16*time.Second || second > 24*time.Second {
			t.Errorf("the second wait is %v", second)
		}
		b.Reset()
	}
	for i := range time.Duration(10) {
		if n := tenths[i]; n < 50 || n > 200 {
			t.Errorf("%d of 1000 come in second %d", n, i)
		}
	}
	b.Spread = time.Hour
	if first := b.Next(); first > time.Minute {
		t.Errorf("longer than Max: %v", first)
	}
}

func TestTheLongestWaitsDiffer(t *testing.T) {
	b := backoff.Backoff{Min: time.Minute, Max: time.Minute, Factor: 1}
	most := 0
	for range 100 {
		if b.Next() == time.Minute {
			most++
		}
	}
	if most > 1 {
		t.Errorf("%d of 100 wait for exactly the longest time", most)
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
