// Package sleep waits for a time in a way that ends early.
package sleep

import (
	"context"
	"time"
)

// For waits for d, or until ctx is done, or until a value is sent on wake or it is closed. wake
// may be nil. It returns ctx's error.
func For(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	case <-wake:
	}
	return ctx.Err()
}
