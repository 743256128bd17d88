package reconcile

import (
	"errors"
	"sync"

	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// outdated is why the desired state in force cannot be planned: an older controller
// accepted it, and this one, which is stricter or knows more, would not. Nothing has
// been written when it is returned.
type outdated struct{ error }

// Unwrap is the reason.
func (o *outdated) Unwrap() error { return o.error }

// NotPlanned is the warning of an instance whose desired state is outdated.
var NotPlanned = fault.Root.Fault("was accepted by an older controller and is not valid for this one, for these reasons: " +
	"nothing is planned, and the nodes keep their documents; `hitchctl apply` brings valid ones")

// ApplyUnlessOutdated is Apply that leaves everything as it is if the desired state is outdated:
// what nodes report, and the deadlines of operations, must not wait for an operator to
// PUT it again. The effect is empty then.
func (r *Reconciler) ApplyUnlessOutdated(t *tx.Tx) (*Effect, error) {
	e, err := r.Apply(t)
	var o *outdated
	if errors.As(err, &o) {
		if r.unplanned.news(t.Instance.ID, err.Error()) {
			r.Log.Error("an instance is not planned any more; its nodes keep their documents", "instance", t.Instance.ID, "error", err)
		}
		return &Effect{}, nil
	}
	if err == nil {
		r.unplanned.news(t.Instance.ID, "")
	}
	return e, err
}

// unplanned remembers which instances are not planned, so that the log says so
// once and not at each report of a node.
type unplanned struct {
	mu  sync.Mutex
	why map[string]string
}

func (p *unplanned) news(instanceID, why string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.why[instanceID] == why {
		return false
	}
	if p.why == nil {
		p.why = make(map[string]string)
	}
	p.why[instanceID] = why
	if why == "" {
		delete(p.why, instanceID)
	}
	return true
}
