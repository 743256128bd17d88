package store

import "sync"

// group lets updates share a commit. Those that come while a commit is on its way to
// the disk wait; then each runs on what the one before it has left, and all go to the
// disk together. An update does not wait for others to come, so one that is alone is
// committed at once.
//
// Each update runs on the goroutine of its caller, which takes its panic. What lies
// between is done by a goroutine of its own, that no caller pays for.
type group struct {
	// transact gives run a snapshot and makes the changes that it returns durable.
	// No other write comes in between. Its error may come before run or after it.
	transact func(run func(reader) writeSet) error

	mu      sync.Mutex
	waiting []*member
	working bool
}

// member is one update.
type member struct {
	// turn brings what the update runs on; it is closed when no turn will come.
	turn chan *image
	// ran is closed when the turn is over.
	ran chan struct{}
	// committed brings the outcome of the commit.
	committed chan error
}

// update is that of engine.
func (g *group) update(fn func(writer) error) error {
	m := &member{turn: make(chan *image), ran: make(chan struct{}), committed: make(chan error, 1)}
	g.join(m)
	shared, ok := <-m.turn
	if !ok {
		return <-m.committed
	}
	durable, err := m.run(fn, shared)
	if durable {
		return err
	}
	if failed := <-m.committed; failed != nil {
		return failed
	}
	return err
}

// run takes the turn. durable says that there is nothing to wait for: the update
// neither wrote anything nor saw anything that is not committed.
func (m *member) run(fn func(writer) error, shared *image) (durable bool, err error) {
	defer close(m.ran)
	own := newImage(shared)
	if err = fn(own); err == nil {
		shared.writes.add(own.writes)
	}
	return len(shared.writes) == 0, err
}

func (g *group) join(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, m)
	if !g.working {
		g.working = true
		go g.work()
	}
}

// next is all that wait; none ends the work.
func (g *group) next() []*member {
	g.mu.Lock()
	defer g.mu.Unlock()
	members := g.waiting
	g.waiting, g.working = nil, len(members) > 0
	return members
}

func (g *group) work() {
	for members := g.next(); len(members) > 0; members = g.next() {
		err := g.transact(func(snapshot reader) writeSet {
			shared := newImage(snapshot)
			for _, m := range members {
				m.turn <- shared
				<-m.ran
			}
			return shared.writes
		})
		for _, m := range members {
			close(m.turn)
			m.committed <- err
		}
	}
}
