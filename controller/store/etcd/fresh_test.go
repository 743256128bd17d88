package etcd

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// What a quorum has counts from when it was asked, and only once it is held.
func TestFreshness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stale := 0
		f := newFreshness(New(Options{}), func() { stale++ })
		f.took(commit{revision: 4, head: []byte("four")})
		behind := func(want bool, when string) {
			t.Helper()
			synctest.Wait()
			if err := f.check(); errors.Is(err, ErrBehind) != want {
				t.Errorf("%s: %v", when, err)
			}
		}
		behind(true, "before the first answer")
		if at, why := f.confirmation(); !at.IsZero() || !errors.Is(why, ErrBehind) {
			t.Errorf("before the first answer: %v, %v", at, why)
		}
		f.await(time.Now(), Position{HeadRevision: 4, Head: []byte("four")})
		behind(false, "it holds what the quorum has")
		time.Sleep(maxAge / 2)
		go f.await(time.Now(), Position{HeadRevision: 5, Head: []byte("five")})
		time.Sleep(maxAge / 2)
		behind(true, "the quorum has more")
		if stale != 1 || len(f.lags) != 1 {
			t.Errorf("it was told %d times that it is stale, and %d times that the watch lags", stale, len(f.lags))
		}
		f.took(commit{revision: 5, head: []byte("five")})
		behind(false, "it has come")
		time.Sleep(maxAge / 2)
		behind(true, "three seconds after the question")
		if at, why := f.confirmation(); time.Since(at) != maxAge || !errors.Is(why, ErrBehind) {
			t.Errorf("three seconds after the question: %s ago, %v", time.Since(at), why)
		}
		if stale != 2 {
			t.Errorf("it was told %d times that it is stale", stale)
		}
		f.await(time.Now(), Position{HeadRevision: 5, Head: []byte("another")})
		if !errors.Is(f.over(), ErrOtherHistory) || stale != 3 {
			t.Errorf("another head: %v", f.over())
		}
	})
}

// A commit may take longer to come than the first watch has: the next ones have more time.
func TestEachWatchHasMoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFreshness(New(Options{}), nil)
		go f.await(time.Now(), Position{HeadRevision: 5, Head: []byte("five")})
		began := time.Now()
		for _, want := range []string{"1s", "3s", "7s", "15s", "25s", "35s"} {
			<-f.lags
			if got := time.Since(began); got.String() != want {
				t.Errorf("a watch begins after %s, want %s", got, want)
			}
		}
		f.took(commit{revision: 4, head: []byte("four")})
		began = time.Now()
		<-f.lags
		if got := time.Since(began); got != lagLimit {
			t.Errorf("after a commit has come, the next watch begins after %s", got)
		}
		f.took(commit{revision: 5, head: []byte("five")})
	})
}
