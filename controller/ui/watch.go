package ui

import "slices"

// watched is a key whose changes are waited for.
type watched struct {
	hub     Changes
	key     string
	changed <-chan struct{}
	stop    func()
}

func watch(hub Changes, key string) *watched {
	w := &watched{hub: hub, key: key}
	w.changed, w.stop = hub.Watch(key)
	return w
}

// again waits for the next change. What changes from now on is noticed.
func (w *watched) again() {
	w.stop()
	w.changed, w.stop = w.hub.Watch(w.key)
}

// watchedLists are all keys of lists.
type watchedLists []*watched

func (u *UI) watchLists() (all watchedLists) {
	for key := range lists {
		all = append(all, watch(u.Changes, key))
	}
	return all
}

func (all watchedLists) stop() {
	for _, w := range all {
		w.stop()
	}
}

// take is the lists that have changed since the last call, each once.
func (all watchedLists) take() (names []string) {
	for _, w := range all {
		select {
		case <-w.changed:
			w.again()
			names = append(names, lists[w.key]...)
		default:
		}
	}
	return once(names)
}

// all is every list.
func (all watchedLists) all() (names []string) {
	for _, of := range lists {
		names = append(names, of...)
	}
	return once(names)
}

func once(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
