package replicas

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// caller is a client of the API that knows the URLs of all controllers. It goes to the next
// one after an attempt that failed.
type caller struct {
	w    *installation
	apis []*client.Controller
	at   int
}

// callLimit is how long a client waits for an answer.
const callLimit = 5 * time.Second

// caller is the n-th, with an address of its own.
func (w *installation) caller(n int) *caller {
	w.t.Helper()
	c := &caller{w: w, at: n % len(w.controllers)}
	for _, each := range w.controllers {
		one, err := client.New(client.Options{BaseURL: each.url, RootPEM: []byte(w.trust.RootCertificate), Pin: w.trust.Pin,
			Token: w.token, Timeout: callLimit, Dial: w.clients.dialFrom(w.clients.machine(n))})
		w.must(err)
		c.apis = append(c.apis, one)
	}
	w.t.Cleanup(func() {
		for _, one := range c.apis {
			one.CloseIdle()
		}
	})
	return c
}

// outcome is what a caller knows of a request.
type outcome int

const (
	done    outcome = iota // acknowledged
	not                    // refused, or it was never sent
	unknown                // it may be done, also later
)

// once makes one attempt. Its error is nil only if it is done.
func (c *caller) once(request func(*client.Controller) error) (outcome, error) {
	err := request(c.apis[c.at])
	if err == nil {
		return done, nil
	}
	result := outcomeOf(err)
	if result == unknown || client.Status(err) == 0 {
		c.apis[c.at].CloseIdle()
		c.at = (c.at + 1) % len(c.apis)
	}
	return result, err
}

// outcomeOf an error. A controller answers 503 also if etcd did not confirm the change.
func outcomeOf(err error) outcome {
	var op *net.OpError
	var problem *api.Problem
	switch status := client.Status(err); {
	case errors.As(err, &op) && op.Op == "dial":
		return not
	case errors.As(err, &problem) && strings.Contains(problem.Detail, "nothing of this request was done"): // of a follower without a leader
		return not
	case status == 0, status >= 500:
		return unknown
	}
	return not
}

// passes says that another attempt may succeed.
func passes(err error) bool {
	status := client.Status(err)
	return status == 0 || status >= 500 || status == http.StatusTooManyRequests
}

// until repeats a request until it is done, or refused for good. Attempts are as far apart as
// a person's.
func (c *caller) until(request func(*client.Controller) error) error {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		_, err := c.once(request)
		if err == nil || !passes(err) || time.Now().After(deadline) {
			return err
		}
		if !sleep(c.w.t.Context(), 200*time.Millisecond) {
			return err
		}
	}
}

// sleep paces a client; false if ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func spec(t testing.TB, params map[string]any, topology *api.Topology) api.InstanceSpec {
	t.Helper()
	text, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	return api.InstanceSpec{AdditionalParams: text, Topology: topology}
}
