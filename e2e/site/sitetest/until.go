package sitetest

import (
	"context"
	"testing"
	"time"
)

// Until looks again and again until nothing is wrong; after six minutes, which leaves
// room for a machine that has much else to do, it fails the test. It may be called in a
// cleanup, when the test's context has ended.
func Until(t *testing.T, what string, wrong func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 6*time.Minute)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := wrong()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("it never came to: %s: %v", what, err)
		case <-tick.C:
		}
	}
}
