package attestation

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// mostRemembered bounds a memory. Only servers that a topology expects get as far, so
// it is not reached.
const mostRemembered = 10_000

// memory keeps answers for as long as they count, failures too, and has each question
// asked only once at a time.
type memory[V any] struct {
	now    func() time.Time
	counts func(V) time.Duration

	flights singleflight.Group
	mu      sync.Mutex
	answers map[string]answer[V]
}

type answer[V any] struct {
	value V
	err   error
	until time.Time
}

func newMemory[V any](now func() time.Time, counts func(V) time.Duration) *memory[V] {
	return &memory[V]{now: now, counts: counts, answers: map[string]answer[V]{}}
}

// get is the answer that is still valid, else that of ask, which continues for the others
// when the caller's ctx ends first.
func (m *memory[V]) get(ctx context.Context, key string, ask func(context.Context) (V, error)) (V, error) {
	flight := m.flights.DoChan(key, func() (any, error) {
		if a, ok := m.recall(key); ok {
			return a, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), attestationTimeout)
		defer cancel()
		value, err := ask(ctx)
		return m.remember(key, value, err), nil
	})
	select {
	case landed := <-flight:
		a := landed.Val.(answer[V])
		return a.value, a.err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

func (m *memory[V]) recall(key string) (answer[V], bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.answers[key]
	return a, ok && m.now().Before(a.until)
}

func (m *memory[V]) remember(key string, value V, err error) answer[V] {
	a := answer[V]{value: value, err: err, until: m.now().Add(failureCounts)}
	if err == nil {
		a.until = m.now().Add(m.counts(value))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.answers) >= mostRemembered {
		maps.DeleteFunc(m.answers, func(_ string, a answer[V]) bool { return !m.now().Before(a.until) })
	}
	if len(m.answers) < mostRemembered {
		m.answers[key] = a
	}
	return a
}

func (m *memory[V]) forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.answers, key)
}
