package sitetest

import (
	"context"
	"testing"
	"time"
)

// Until calls wrong until it returns no error. The calls take at most a fifth of the time: what
// is waited for needs the processors too. After six minutes, which is enough on a busy machine, it
// fails the test. It may be called in a cleanup, when the test's context has ended.
func Until(t *testing.T, what string, wrong func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 6*time.Minute)
	defer cancel()
	for {
		began := time.Now()
		err := wrong()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("timed out; expected: %s: %v", what, err)
		case <-time.After(max(200*time.Millisecond, 4*time.Since(began))):
		}
	}
}
