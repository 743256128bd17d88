package store

import "sync"

// group lets updates share a commit. Those that come while a commit is on its way to
// the disk wait; then each runs on what the one before it has left, and all go to the
// disk together. An update does not wait for others to come, so one that is alone is
// committed at once.
//
// Each update runs on the goroutine of its caller, which takes its panic. What lies
// between is done by a goroutine of its own, that no caller pays for.
//
// If a commit may only be so large, one that is full ends before the update that does not
// fit, which is committed next; an update that fits into none is refused.
type group struct {
	// transact is that of the engine, and busy is locked meanwhile.
	transact func(run func(reader) writeSet) error
	busy     sync.Mutex
	// limits of a commit; nil if there are none.
	limits *limits

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

	// Once the turn is over: what the update writes, and why that is not committed.
	over    bool
	writes  writeSet
	refused error
}

// update runs fn once, alone among writers, on what those before it have left.
// When it returns nil, all that fn wrote is durable. When fn returns an error or
// panics, none of its writes is kept, and those of other writers are. An error of
// the commit reaches every writer whose fn saw or wrote what was to be committed.
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
		m.writes = own.writes
	}
	return len(shared.writes) == 0 && len(m.writes) == 0, err
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
		for len(members) > 0 {
			members = g.commit(members)
		}
	}
}

// commit commits what fits and returns the members that are left. The first of these has
// run on what was committed.
func (g *group) commit(members []*member) (left []*member) {
	g.busy.Lock()
	err := g.transact(func(committed reader) writeSet {
		shared := newImage(committed)
		full := g.limits.count()
		for i, m := range members {
			if !m.over {
				m.turn <- shared
				<-m.ran
				m.over = true
			}
			if m.refused = full.alone(m.writes); m.refused != nil {
				continue
			}
			if !full.add(m.writes) {
				members, left = members[:i], members[i:]
				break
			}
			shared.writes.add(m.writes)
		}
		return shared.writes
	})
	g.busy.Unlock()
	if err != nil && len(left) > 0 { // the first one saw what is not committed
		members, left = append(members, left[0]), left[1:]
	}
	for _, m := range members {
		close(m.turn)
		if m.refused != nil {
			m.committed <- m.refused
		} else {
			m.committed <- err
		}
	}
	return left
}
