package attestation

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func at(now *time.Time) *nonces {
	return &nonces{now: func() time.Time { return *now }, servers: map[string]*nonce{}}
}

// A machine asks after the enrollment and before the deletion has begun: there is
// nothing to delete any more.
func TestANonceMadeMeanwhileIsNotDeleted(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := at(&now)
	ask := func() (value string) {
		if err := s.ask(context.Background(), "server", func(v string) error { value = v; return nil }); err != nil {
			t.Fatal(err)
		}
		return value
	}
	first := ask()
	spent := s.spend("server")
	second := ask()
	if err := s.clear(context.Background(), "server", spent, func() error { t.Error("the new one was deleted"); return nil }); err != nil {
		t.Fatal(err)
	}
	if first == second || s.matches("server", first) || !s.matches("server", second) {
		t.Errorf("first %q, then %q", first, second)
	}
}

// Memory is bounded: when it is full those in force stay, and those that have ended
// make room.
func TestNoncesAreBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := at(&now)
	write := func(string) error { return nil }
	for i := range mostNonces {
		if err := s.ask(context.Background(), fmt.Sprint(i), write); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Millisecond)
	}
	if err := s.ask(context.Background(), "one more", write); !errors.Is(err, errFull) {
		t.Fatalf("%v, want %v", err, errFull)
	}
	now = now.Add(nonceLife - 5*time.Second)
	if err := s.ask(context.Background(), "one more", write); err != nil {
		t.Fatal(err)
	}
	if n := len(s.servers); n > mostNonces/2+1 || n < 2 {
		t.Errorf("%d are kept", n)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	m := newMemory(func() time.Time { return now }, func(int) time.Duration { return time.Minute })
	asked := 0
	get := func(i int) {
		got, err := m.get(context.Background(), fmt.Sprint(i), func(context.Context) (int, error) { asked++; return i, nil })
		if err != nil || got != i {
			t.Fatalf("got %d, %v; want %d", got, err, i)
		}
	}
	for i := range mostRemembered + 10 {
		get(i)
	}
	if len(m.answers) != mostRemembered {
		t.Errorf("%d are kept", len(m.answers))
	}
	now = now.Add(time.Minute)
	get(-1)
	if len(m.answers) != 1 || asked != mostRemembered+11 {
		t.Errorf("%d are kept, %d asked", len(m.answers), asked)
	}
}
