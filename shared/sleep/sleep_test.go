package sleep_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodehitch/nodehitch/shared/sleep"
)

func TestForEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if err := sleep.For(t.Context(), time.Hour, nil); err != nil || time.Since(begun) != time.Hour {
			t.Errorf("slept %v, %v", time.Since(begun), err)
		}
		wake := make(chan struct{}, 1)
		wake <- struct{}{}
		begun = time.Now()
		if err := sleep.For(t.Context(), time.Hour, wake); err != nil || time.Since(begun) != 0 {
			t.Errorf("woken: slept %v, %v", time.Since(begun), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := sleep.For(ctx, time.Hour, nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("cancelled: slept %v, %v", time.Since(begun), err)
		}
	})
}
