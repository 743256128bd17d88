package abuse

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
)

// watch is what is seen during an attack: of the process, and by the well-behaved clients.
type watch struct {
	mu sync.Mutex
	// before and most are the memory of the process, files its descriptors.
	before, most int64
	files        int
	// calls is how many calls the well-behaved clients made, each on a connection of its
	// own; slowest is how long the slowest took.
	calls   map[string]int
	slowest time.Duration
	// again is how many had to be made again: an overloaded machine gives up handshakes,
	// and clients try again.
	again    int
	failures []string
	// Of the forbidden requests: how many were refused, how many got no answer, and what
	// was given to the others.
	refused, unanswered int
	given               []string
}

// during runs the attack and watches.
func (a *arena) during(attack func()) *watch {
	a.t.Helper()
	w := &watch{before: a.Usage().Resident, calls: map[string]int{}}
	ctx, stop := context.WithCancel(a.t.Context())
	var watching sync.WaitGroup
	pid := a.PID()
	every(ctx, &watching, 20*time.Millisecond, func() {
		u, err := loopback.UsageOf(pid)
		w.mu.Lock()
		defer w.mu.Unlock()
		if err != nil {
			w.failures = append(w.failures, err.Error())
			return
		}
		w.most, w.files = max(w.most, u.Resident), max(w.files, u.Files)
	})
	every(ctx, &watching, 100*time.Millisecond, func() {
		w.call(ctx, "a viewer", a.address, a.unauthenticated, head("GET", "/v1/vnf_instances", a.bystanderToken, 0, "Connection: close"))
	})
	every(ctx, &watching, 100*time.Millisecond, func() {
		w.call(ctx, "a node", a.address, a.bystanderNode, head("GET", "/v1/node/config", "", 0, "Connection: close"))
	})
	forbiddenRequests := a.forbiddenRequests()
	next := 0
	every(ctx, &watching, 100*time.Millisecond, func() {
		w.forbidden(ctx, a, forbiddenRequests[next%len(forbiddenRequests)])
		next++
	})
	attack()
	loopback.Until(a.t, "the well-behaved clients have called", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.calls["a viewer"] > 0 && w.calls["a node"] > 0
	})
	stop()
	watching.Wait()
	for _, r := range forbiddenRequests {
		loopback.Until(a.t, "an answer to a request for "+r.what, func() bool { return w.forbidden(a.t.Context(), a, r) })
	}
	calls := w.calls["a viewer"] + w.calls["a node"]
	if len(w.failures) > 0 {
		a.t.Errorf("%d of %d calls did not get the answer that they should: %.500q", len(w.failures), calls+w.refused, w.failures)
	}
	if len(w.given) > 0 {
		a.t.Errorf("these requests were not refused: %q", w.given)
	}
	a.c.Unauthorised(int64(len(w.given)))
	a.c.Figure("requests that had to be refused", "%d, and %d not answered", w.refused+len(w.given), w.unanswered)
	a.c.Figure("memory", "%d MiB, then at most %d", w.before>>20, w.most>>20)
	a.c.Figure("calls of others", "%d, %d of them made again, the slowest took %d ms", calls, w.again, w.slowest.Milliseconds())
	return w
}

// every does something again and again until ctx ends.
func every(ctx context.Context, running *sync.WaitGroup, period time.Duration, do func()) {
	running.Go(func() {
		tick := time.NewTicker(period)
		defer tick.Stop()
		for {
			do()
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
}

// call makes a call on a connection of its own from 127.0.0.1.
func (w *watch) call(ctx context.Context, who, address string, as *tls.Config, request string) {
	began := time.Now()
	err, again := served(ctx, address, as, request), 0
	for ; err != nil && again < 2 && ctx.Err() == nil; again++ {
		err = served(ctx, address, as, request)
	}
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[who]++
	w.again += again
	w.slowest = max(w.slowest, time.Since(began))
	if err != nil {
		w.failures = append(w.failures, who+": "+err.Error())
	}
}

func served(ctx context.Context, address string, as *tls.Config, request string) error {
	status, _, err := ask(ctx, address, as, request)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("answered %d", status)
	}
	return err
}

// ask makes one request and returns the whole answer.
func ask(ctx context.Context, address string, as *tls.Config, request string) (status int, answer string, err error) {
	conn, err := (&tls.Dialer{NetDialer: &net.Dialer{Timeout: time.Minute}, Config: as}).DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, request); err != nil {
		return 0, "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// grew fails the case if the process grew by more than this. The unix socket has to
// answer root in any case.
func (a *arena) grew(w *watch, most int64) {
	a.t.Helper()
	if grown := w.most - w.before; grown > most {
		a.t.Errorf("the controller grew by %d MiB, expected at most %d", grown>>20, most>>20)
	}
	if _, err := a.Hitchctl("get", "instances"); err != nil {
		a.t.Errorf("root on the unix socket: %v", err)
	}
}
