package controllerfault

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// operate posts an operation, each time with the same key.
func (w *work) operate(key string, o api.OperationRequest, over []string, want api.OperationState) {
	o.IdempotencyKey, o.Partial = key, true
	id := ""
	is := func(states ...api.OperationState) func() error {
		return func() error {
			op, err := client.Read[api.Operation](w.c.API.GetOperation(w.t.Context(), instance, id, nil))
			if err != nil {
				return err
			}
			for _, state := range states {
				if op.State == state && op.IdempotencyKey == key {
					return nil
				}
			}
			return fmt.Errorf("it is %s (%s)", op.State, typeOf(op.Error))
		}
	}
	fact := fmt.Sprintf("operation %s is on record", key)
	w.completes = func() {
		w.step("see that "+key+" is completed", []string{fact}, is(api.Completed), facts{key + " is completed": is(api.Completed)})
	}
	w.step("post the operation "+key, over, func() error {
		if want == api.Failed {
			// The same request would begin anew once it has failed, so who has lost the
			// answer looks first.
			list, err := client.Read[api.OperationList](w.c.API.ListInstanceOperations(w.t.Context(), instance))
			if err != nil {
				return err
			}
			if at := slices.IndexFunc(list.Items, func(o api.Operation) bool { return o.IdempotencyKey == key }); at >= 0 {
				id = list.Items[at].ID
				return nil
			}
		}
		op, err := client.Read[api.Operation](w.c.API.PostOperation(w.t.Context(), instance, o))
		if err == nil {
			id = op.ID
		}
		return err
	}, facts{fact: is(api.Processing, want)})
	if want == api.Failed {
		w.step("wait for the deadline of "+key, []string{fact}, func() error {
			for deadline := time.Now().Add(10 * time.Second); ; {
				err := is(want)()
				if err == nil || client.Status(err) != 0 || time.Now().After(deadline) || !strings.HasPrefix(err.Error(), "it is ") {
					return err
				}
				time.Sleep(50 * time.Millisecond) // for the controller's own clock
			}
		}, facts{fact: is(want)})
	}
}
