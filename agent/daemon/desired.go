package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// defaultPeriod is how often the machine is planned until the controller sets it.
const defaultPeriod = 5 * time.Minute

// desired is the document in force. The contact loop sets it, the converging loop
// reads it.
type desired struct {
	wake chan struct{}

	mu        sync.Mutex
	doc       *api.NodeConfig
	digest    string
	confirmed bool
	period    time.Duration
	interrupt context.CancelFunc // of the current pass
}

func newDesired() *desired {
	return &desired{wake: make(chan struct{}, 1), period: defaultPeriod}
}

// put makes the document the one in force. A pass for another document ends before
// its next action.
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
	d.poke()
}

// poke ends the wait for the next pass.
func (d *desired) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// document is the document in force, nil if there is none.
func (d *desired) document() *api.NodeConfig {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.doc
}

// confirm sets whether the controller has confirmed the document on the present
// connection.
func (d *desired) confirm(yes bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.confirmed = yes
}

// every sets how often the machine is planned; 0 changes nothing.
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

// passInput is the document in force at the start of a pass. put cancels ctx.
type passInput struct {
	doc       *api.NodeConfig
	digest    string
	confirmed bool
	ctx       context.Context // of this one pass
	done      context.CancelFunc
}

// begin starts a pass; false if there is no document.
func (d *desired) begin(ctx context.Context) (passInput, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.doc == nil {
		return passInput{}, false
	}
	in := passInput{doc: d.doc, digest: d.digest, confirmed: d.confirmed}
	in.ctx, in.done = context.WithCancel(ctx)
	d.interrupt = in.done
	return in, true
}
