package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// defaultPeriod is how often the machine is planned again before the controller
// has set the cadence.
const defaultPeriod = 5 * time.Minute

// desired is the document in force, handed from the line to the engine.
type desired struct {
	wake chan struct{}

	mu        sync.Mutex
	doc       *api.NodeConfig
	digest    string
	confirmed bool
	period    time.Duration
	interrupt context.CancelFunc // of the pass that is under way
}

func newDesired() *desired {
	return &desired{wake: make(chan struct{}, 1), period: defaultPeriod}
}

// put makes a document the one in force. A pass under way for another ends
// between two actions.
func (d *desired) put(doc *api.NodeConfig, digest string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.doc != nil && d.digest == digest && d.doc.Generation == doc.Generation {
		return
	}
	d.doc, d.digest = doc, digest
	if d.interrupt != nil {
		d.interrupt()
	}
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// document is the one in force, nil while there is none.
func (d *desired) document() *api.NodeConfig {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.doc
}

// confirm says whether the controller stands behind the document at present.
func (d *desired) confirm(yes bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.confirmed = yes
}

// every sets how often the machine is planned again; 0 changes nothing.
func (d *desired) every(period time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if period > 0 {
		d.period = period
	}
}

func (d *desired) howOften() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.period
}

// order is the document in force at the start of a pass, which put interrupts
// through ctx.
type order struct {
	doc       *api.NodeConfig
	digest    string
	confirmed bool
	ctx       context.Context //nolint:containedctx // of this one pass
	done      context.CancelFunc
}

// begin is the start of a pass; false while there is no document.
func (d *desired) begin(ctx context.Context) (order, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.doc == nil {
		return order{}, false
	}
	o := order{doc: d.doc, digest: d.digest, confirmed: d.confirmed}
	o.ctx, o.done = context.WithCancel(ctx)
	d.interrupt = o.done
	return o, true
}
