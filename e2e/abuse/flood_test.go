package abuse

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
)

const floodStatus = `{"epoch":1,"observedGeneration":1,"observedDigest":"x","conditions":[],"facts":{"hostname":"h"}}`

// TestAFloodOfStatuses has one node send statuses on all its connections, as fast as they are
// answered, while another node asks for its configuration. The calls with and without the flood
// alternate, so that what else the machine does meets both.
func TestAFloodOfStatuses(t *testing.T) {
	c := results.Begin(t, "abuse", "a node floods statuses", "it is refused by itself, and at most doubles the median of others' calls")
	a := open(t, c)
	rounds, calls := a.size(3, 9), a.size(40, 200)
	status := head("PUT", "/v1/node/status", "", len(floodStatus)) + floodStatus
	var quiet, flooded []time.Duration
	answers := &tally{}
	began := time.Now()
	for range rounds {
		quiet = append(quiet, a.ask(calls)...)
		ctx, stop := context.WithCancel(t.Context())
		var flood sync.WaitGroup
		for range 8 {
			flood.Go(func() { a.flood(ctx, status, answers) })
		}
		answers.until(t, http.StatusTooManyRequests)
		flooded = append(flooded, a.ask(calls)...)
		stop()
		flood.Wait()
	}
	taken, refused := answers.of(http.StatusNoContent), answers.of(http.StatusTooManyRequests)
	// A full bucket, what has flowed in since, and one for what this clock and the
	// controller's count differently.
	if most := 60 + 2*int(time.Since(began)/time.Second) + 3; taken > most {
		t.Errorf("%d statuses were taken, expected at most %d", taken, most)
	}
	// A refusal is held for a second: eight connections get eight in a second.
	if most := 8 * (int(time.Since(began)/time.Second) + 1) * 2; refused > most {
		t.Errorf("%d statuses were refused, expected at most %d", refused, most)
	}
	ratio := float64(median(flooded)) / float64(median(quiet))
	c.Figure("statuses", "%d taken, %d refused", taken, refused)
	c.Figure("median of others with the flood", "%.2f of the median without it", ratio)
	// The small size has too few calls for a median.
	if a.full && ratio > 2 {
		t.Errorf("the flood makes the others' median %.2f times as long (%v instead of %v)", ratio, median(flooded), median(quiet))
	}
}

func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// tally counts answers by their status.
type tally struct {
	mu    sync.Mutex
	count map[int]int
}

func (s *tally) add(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == nil {
		s.count = map[int]int{}
	}
	s.count[status]++
}

func (s *tally) of(status int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[status]
}

// until waits for one more answer with this status.
func (s *tally) until(t *testing.T, status int) {
	t.Helper()
	before := s.of(status)
	loopback.Until(t, "the flood is refused", func() bool { return s.of(status) > before })
}

// flood sends statuses on one connection, and on the next when that is closed.
func (a *arena) flood(ctx context.Context, status string, answers *tally) {
	for ctx.Err() == nil {
		a.onOne(ctx, a.node, func(conn io.ReadWriter, answer *bufio.Reader) bool {
			code, ok := exchange(conn, answer, status)
			if ok {
				answers.add(code)
			}
			return ok
		})
	}
}

// ask makes calls on one connection and returns how long each took.
func (a *arena) ask(calls int) (took []time.Duration) {
	a.t.Helper()
	request := head("GET", "/v1/node/config", "", 0)
	a.onOne(a.t.Context(), a.bystanderNode, func(conn io.ReadWriter, answer *bufio.Reader) bool {
		began := time.Now()
		code, ok := exchange(conn, answer, request)
		if !ok || code != http.StatusOK {
			a.t.Errorf("a call of another node is answered %d", code)
			return false
		}
		took = append(took, time.Since(began))
		return len(took) < calls
	})
	if len(took) == 0 {
		a.t.Fatal("no call of another node was answered")
	}
	return took
}

// onOne connects and calls use until that is false or ctx ends.
func (a *arena) onOne(ctx context.Context, as *tls.Config, use func(io.ReadWriter, *bufio.Reader) bool) {
	conn, err := (&tls.Dialer{NetDialer: &net.Dialer{Timeout: time.Minute}, Config: as}).DialContext(ctx, "tcp", a.address)
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	for answer := bufio.NewReader(conn); ctx.Err() == nil && use(conn, answer); {
		continue
	}
}

func exchange(conn io.Writer, answer *bufio.Reader, request string) (status int, ok bool) {
	if _, err := io.WriteString(conn, request); err != nil {
		return 0, false
	}
	resp, err := http.ReadResponse(answer, nil)
	if err != nil {
		return 0, false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err == nil
}
