package openstacktest

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"time"
)

// Fault is what a call does instead of answering.
type Fault struct {
	// Status is the answer's, 0 for the good answer.
	Status int
	// RetryAfter is the header of that name, "" for none.
	RetryAfter string
	// Body is the answer's, "" for an error in the service's own shape.
	Body string
	// Drop closes the connection without an answer.
	Drop bool
	// Delay is the time before all this.
	Delay time.Duration
	// Times is how many calls it is for; 0 is every one.
	Times int
}

// Fail has a call, one of the constants, fail from now on. The zero Fault ends that.
func (c *Cloud) Fail(call string, f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f == (Fault{}) {
		delete(c.faults, call)
		return
	}
	c.faults[call] = &f
}

// Deny makes services answer a call as they do if an application credential has no
// access rule for it: not with 403, but as if the token were not good.
func (c *Cloud) Deny(call string) { c.Fail(call, Fault{Status: http.StatusUnauthorized}) }

// reply is the answer to a call.
type reply struct {
	status int
	body   any
}

func ok(body any) reply { return reply{http.StatusOK, body} }

// guarded is a call that needs a token.
func (c *Cloud) guarded(call string, answer func(*http.Request) reply) http.Handler {
	return c.counted(call, func(r *http.Request) (reply, http.Header) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.tokens[r.Header.Get("X-Auth-Token")] {
			return refused(http.StatusUnauthorized), nil
		}
		if project := r.PathValue("project_id"); project != "" && project != ProjectID {
			return refused(http.StatusForbidden), nil
		}
		return answer(r), nil
	})
}

// counted counts a call and makes it fail if the test asked for that.
func (c *Cloud) counted(call string, answer func(*http.Request) (reply, http.Header)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := c.begin(call)
		if f.Delay > 0 {
			timer := time.NewTimer(f.Delay)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-r.Context().Done():
			}
		}
		switch {
		case f.Drop:
			panic(http.ErrAbortHandler)
		case f.Status != 0:
			if f.RetryAfter != "" {
				w.Header().Set("Retry-After", f.RetryAfter)
			}
			if f.Body == "" {
				send(w, refused(f.Status))
				return
			}
			w.WriteHeader(f.Status)
			fmt.Fprint(w, f.Body)
			return
		}
		out, header := answer(r)
		for name, values := range header {
			w.Header()[name] = values
		}
		send(w, out)
	})
}

// begin counts a call, and is the fault that it has.
func (c *Cloud) begin(call string) Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[call]++
	f, ok := c.faults[call]
	if !ok {
		return Fault{}
	}
	if f.Times > 0 {
		if f.Times--; f.Times == 0 {
			delete(c.faults, call)
		}
	}
	return *f
}

func send(w http.ResponseWriter, r reply) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Openstack-Request-Id", "req-0e213198-9d9f-4a0b-8cf5-a736baf1f57b")
	w.WriteHeader(r.status)
	if r.body != nil {
		_ = json.NewEncoder(w).Encode(r.body) // the client is gone if that fails
	}
}

// refused is an error in the shape that Keystone, and its middleware in all services,
// gives it.
func refused(status int) reply {
	return reply{status, object{"error": object{
		"code": status, "title": http.StatusText(status), "message": "The request you have made requires authentication."}}}
}

type object = map[string]any

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
