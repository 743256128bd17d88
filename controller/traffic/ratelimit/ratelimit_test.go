package ratelimit_test

import (
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/traffic/ratelimit"
)

func TestACallerIsLimitedByItself(t *testing.T) {
	now := time.Unix(0, 0)
	l := ratelimit.New[string](10*time.Second, 2, 10)
	for i, c := range []struct {
		caller string
		after  time.Duration
		want   *ratelimit.Refusal
	}{
		{"a", 0, nil},
		{"a", 0, nil},
		{"a", 0, &ratelimit.Refusal{Wait: 10 * time.Second, First: true}},
		{"a", 4 * time.Second, &ratelimit.Refusal{Wait: 6 * time.Second}},
		{"b", 0, nil},
		{"a", 6 * time.Second, nil},
		{"a", 0, &ratelimit.Refusal{Wait: 10 * time.Second}},
		{"a", 20 * time.Second, nil}, // the bucket was full again
		{"a", 0, nil},
		{"a", 0, &ratelimit.Refusal{Wait: 10 * time.Second, First: true}},
	} {
		now = now.Add(c.after)
		got := l.Take(c.caller, now)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("event %d: %+v, want %+v", i, got, c.want)
		}
	}
}

// The memory is bounded, and a caller that floods is not forgotten, however many others come.
func TestCallersAreForgottenButNotOneThatFloods(t *testing.T) {
	now := time.Unix(0, 0)
	l := ratelimit.New[int](time.Hour, 1, 8)
	l.Take(0, now)
	for other := 1; other < 1000; other++ {
		if l.Take(0, now) == nil {
			t.Fatalf("after %d others the flood is let through", other)
		}
		l.Take(other, now)
		if l.Len() > 8 {
			t.Fatalf("%d callers are remembered", l.Len())
		}
	}
}
