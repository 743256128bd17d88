package controllerfault

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// operate posts an operation, each time with the same key.
func (w *work) operate(key string, o api.OperationRequest, over []string, want api.OperationState) {
	o.IdempotencyKey, o.Partial = key, true
	var acknowledged *api.Operation
	// reads is the operation as it is on record, which may only go on.
	reads := func(states ...api.OperationState) (*api.Operation, error) {
		op, err := client.Read[api.Operation](w.c.API.GetOperation(w.t.Context(), instance, acknowledged.Sequence, nil))
		if err != nil {
			return nil, err
		}
		if diff := cmp.Diff(began(*acknowledged), began(*op)); diff != "" {
			return op, fmt.Errorf("it differs (-acknowledged +read):\n%s", diff)
		}
		if !slices.Contains(states, op.State) {
			return op, fmt.Errorf("it is %s (%s)", op.State, typeOf(op.Error))
		}
		return op, nil
	}
	// is wants one of these states, and everything as it was.
	is := func(states ...api.OperationState) fact {
		return kept(func() int { return len(told(acknowledged)) }, func() error { _, err := reads(states...); return err })
	}
	name := fmt.Sprintf("operation %s is on record", key)
	w.completes = func() {
		var done *api.Operation
		w.step("see that "+key+" is completed", []string{name}, func() (err error) { done, err = reads(api.Completed); return err },
			facts{key + " is completed": kept(func() int { return len(told(done)) }, func() error {
				op, err := reads(api.Completed)
				if err == nil && told(op) != told(done) {
					err = fmt.Errorf("it differs (-acknowledged +read):\n%s", cmp.Diff(told(done), told(op)))
				}
				return err
			})})
	}
	w.step("post the operation "+key, over, func() error {
		if want == api.Failed {
			// After a failure the same request would begin a new operation, so a client that
			// has lost the answer reads the list first.
			list, err := client.All[api.Operation](func(page client.RequestEditorFn) (*http.Response, error) {
				return w.c.API.ListInstanceOperations(w.t.Context(), instance, nil, page)
			})
			if err != nil {
				return err
			}
			if at := slices.IndexFunc(list, func(o api.Operation) bool { return o.IdempotencyKey == key }); at >= 0 {
				acknowledged = &list[at]
				return nil
			}
		}
		op, err := client.Read[api.Operation](w.c.API.PostOperation(w.t.Context(), instance, nil, o))
		if err == nil {
			acknowledged = op
		}
		return err
	}, facts{name: is(api.Processing, want)})
	if want == api.Failed {
		w.step("wait for the deadline of "+key, []string{name}, func() error {
			for deadline := time.Now().Add(10 * time.Second); ; {
				_, err := reads(want)
				if err == nil || client.Status(err) != 0 || time.Now().After(deadline) || !strings.HasPrefix(err.Error(), "it is ") {
					return err
				}
				time.Sleep(50 * time.Millisecond) // for the controller's own clock
			}
		}, facts{name: is(want)})
	}
}

// began is what of an operation never changes. Only the answer to a POST has joined.
func began(o api.Operation) string {
	o.Joined = false
	o.State, o.FinishedAt, o.Error, o.Targets, o.Warnings, o.Withheld = "", nil, nil, nil, nil, nil
	return told(&o)
}

func told(o *api.Operation) string {
	b, err := json.Marshal(o)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
