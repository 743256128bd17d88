package command

import (
	"testing"
	"time"
)

func TestDurationsHaveDays(t *testing.T) {
	const none = -1
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "5m": 5 * time.Minute, "2h": 2 * time.Hour, "3d": 72 * time.Hour, "1d12h": 36 * time.Hour, "0s": 0,
		"": none, "5": none, "d": none, "1.5d": none, "-3d": none, "-5m": none, "1d-5m": none, "5x": none, "99999d": none, "65535d2000000h": none, "3d4d": none,
	} {
		got, err := parseSpan(text)
		if err != nil {
			got = none
		}
		if got != want {
			t.Errorf("%q is %s (%v); expected %s", text, got, err, want)
		}
	}
}
