package notify

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestAChangeWakesOnlyThoseWhoWaitForIt(t *testing.T) {
	var h Hub
	mine, stop := h.Watch("a")
	defer stop()
	mineToo, stopToo := h.Watch("a")
	defer stopToo()
	other, stopOther := h.Watch("b")
	defer stopOther()

	h.Changed("a", "no wait is for this")

	if !closed(mine) || !closed(mineToo) {
		t.Error("a waiter of the changed key still waits")
	}
	if closed(other) {
		t.Error("the waiter of another key was woken")
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestWhoStopsLeavesNothingBehind(t *testing.T) {
	var h Hub
	_, stop := h.Watch("a")
	second, stopSecond := h.Watch("a")
	stop()
	stop() // a deferred stop beside an early one must not count twice
	if got := h.Waiting(); got != 1 {
		t.Fatalf("%d waits are held after one of two stopped, want 1", got)
	}
	h.Changed("a")
	if !closed(second) {
		t.Error("the waiter that stayed was not woken")
	}
	stopSecond()
	if len(h.topics) != 0 {
		t.Errorf("%d topics are left, want none", len(h.topics))
	}
}

func TestAStopAfterTheWakeDoesNotTouchTheNextWaiter(t *testing.T) {
	var h Hub
	_, stop := h.Watch("a")
	h.Changed("a")
	next, stopNext := h.Watch("a")
	defer stopNext()
	stop()
	h.Changed("a")
	if !closed(next) {
		t.Error("the waiter that came after the first change missed the second")
	}
}

// A change between the check and the wait must not be missed.
func TestPollMissesNoChange(t *testing.T) {
	var h Hub
	looks := 0
	err := h.Poll(t.Context(), "a", func() (bool, error) {
		looks++
		if looks == 1 {
			h.Changed("a") // happens during the first check
		}
		return looks == 2, nil
	})
	if err != nil || looks != 2 {
		t.Errorf("checked %d times, err %v; want 2 and none", looks, err)
	}
}

func TestPollEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Hub
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		start := time.Now()
		if err := h.Poll(ctx, "a", func() (bool, error) { return false, nil }); err != nil {
			t.Errorf("err %v, want none", err)
		}
		if waited := time.Since(start); waited != 30*time.Second {
			t.Errorf("waited %v, want 30s", waited)
		}
		if h.Waiting() != 0 {
			t.Error("the ended poll is still held")
		}
	})
}

// What can wait elsewhere does not wait here, and is told for how long it may.
func TestPollDoesNotWaitForOneThatWaitsElsewhere(t *testing.T) {
	broken := errors.New("store closed")
	for name, test := range map[string]struct {
		longest time.Duration
		done    bool
		err     error
		told    time.Duration
	}{
		"for its time":           {longest: time.Hour, told: 30 * time.Second},
		"for what is left":       {longest: 10 * time.Second, told: 10 * time.Second},
		"that is done":           {longest: time.Hour, done: true},
		"whose check has failed": {longest: time.Hour, err: broken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h Hub
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				var told time.Duration
				start, checked := time.Now(), 0
				err := h.Poll(Elsewhere(ctx, test.longest, func(left time.Duration) { told = left }), "a", func() (bool, error) {
					checked++
					return test.done, test.err
				})
				if !errors.Is(err, test.err) || told != test.told || checked != 1 || time.Since(start) != 0 {
					t.Errorf("err %v, told %v after %d checks and %v", err, told, checked, time.Since(start))
				}
			})
		})
	}
	// Nobody waits elsewhere once the shutdown has begun.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var h Hub
	if err := h.Poll(Elsewhere(ended, time.Hour, func(time.Duration) { t.Error("told to wait") }), "a", func() (bool, error) { return false, nil }); err != nil {
		t.Error(err)
	}
}

func TestPollReturnsTheErrorOfTheCheck(t *testing.T) {
	var h Hub
	broken := errors.New("store closed")
	if err := h.Poll(t.Context(), "a", func() (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("err %v, want %v", err, broken)
	}
}

// What the whole fleet costs: 10,000 held polls, one of which is woken.
func BenchmarkChangedWith10000Waiters(b *testing.B) {
	const waiters = 10_000
	var h Hub
	ctx, cancel := context.WithCancel(b.Context())
	var all sync.WaitGroup
	before := heap()
	woken := make(chan struct{})
	for i := range waiters {
		key := "node-" + strconv.Itoa(i)
		all.Go(func() {
			first := true
			_ = h.Poll(ctx, key, func() (bool, error) {
				if !first {
					woken <- struct{}{}
				}
				first = false
				return false, nil
			})
		})
	}
	for h.Waiting() < waiters {
		runtime.Gosched()
	}
	perWaiter := float64(heap()-before) / waiters
	b.ResetTimer() // clears metrics too
	for i := range b.N {
		h.Changed("node-" + strconv.Itoa(i%waiters))
		<-woken
	}
	b.StopTimer()
	b.ReportMetric(perWaiter, "B/waiter")
	cancel()
	all.Wait()
}

// heap is the memory in use, stacks of goroutines included.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

func TestAllWaitsAreWoken(t *testing.T) {
	var h Hub
	one, stop := h.Watch("a")
	defer stop()
	other, stopOther := h.Watch("b")
	defer stopOther()
	h.All()
	if !closed(one) || !closed(other) {
		t.Error("a waiter still waits")
	}
	if again, stopAgain := h.Watch("a"); closed(again) {
		t.Error("the next wait is over at once")
	} else {
		stopAgain()
	}
}
