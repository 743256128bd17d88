package ui

import (
	"time"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/ui/page"
)

// everyList is the lists that a page may show.
var everyList = []string{page.ChangedInstances, page.ChangedNodes, page.ChangedOperations, page.ChangedVolumes, page.ChangedAgents, page.ChangedEvents, page.ChangedReplicas}

// lists is which lists a change concerns, by the key that it wakes.
var lists = map[string][]string{
	notify.Instances:  {page.ChangedInstances},
	notify.Nodes:      {page.ChangedNodes, page.ChangedAgents},
	notify.Operations: {page.ChangedOperations},
	notify.Events:     {page.ChangedEvents},
	notify.Replicas:   {page.ChangedReplicas},
	notify.Volumes:    {page.ChangedVolumes},
}

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

// watchedLists is what a stream knows of the lists.
type watchedLists struct {
	keys []*watched
	// changed are the lists that have changed since they were told of, and told is when that was.
	changed map[string]bool
	told    map[string]time.Time
}

func (u *UI) watchLists() *watchedLists {
	all := &watchedLists{changed: map[string]bool{}, told: map[string]time.Time{}}
	for key := range lists {
		all.keys = append(all.keys, watch(u.Changes, key))
	}
	return all
}

func (all *watchedLists) stop() {
	for _, w := range all.keys {
		w.stop()
	}
}

// due is the lists that have changed, and that were not told of for a while.
func (all *watchedLists) due(now time.Time, pace time.Duration) (names []string) {
	for _, w := range all.keys {
		select {
		case <-w.changed:
			w.again()
			for _, name := range lists[w.key] {
				all.changed[name] = true
			}
		default:
		}
	}
	for _, name := range everyList {
		if all.changed[name] && now.Sub(all.told[name]) >= pace {
			names = append(names, name)
			all.told[name] = now
			delete(all.changed, name)
		}
	}
	return names
}
