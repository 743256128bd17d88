package tx

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
)

// Woken are the keys of notify.Hub that a commit wakes, from what it has changed: for a
// controller that follows the leader. The leader wakes by what it does, which is fewer waits
// or as many. all says that every wait is to be woken. What only the leader knows, such as
// which nodes are present, wakes nobody here.
func Woken(t *store.Tx) (keys []string, all bool, err error) {
	if t.BeginsEpoch() { // what counts in one epoch does not in another
		return nil, true, nil
	}
	rollout, err := t.AgentRolloutChange()
	if err != nil {
		return nil, true, err
	}
	if rollout != nil {
		if rollout.Before.Halted() {
			return nil, true, nil // nodes are told that have waited for its end
		}
		keys = append(keys, notify.Nodes)
	}
	w := wakeKeys{instances: map[string]bool{}, keys: keys}
	err = errors.Join(
		w.renamed(t.Instances()),
		w.each(t.Instances().ChangedKeys, func(key string) error { return w.instance(key, nil) }),
		w.each(t.Desired().ChangedKeys, w.ofInstance),
		w.each(t.Files().ChangedKeys, w.ofInstance),
		w.each(t.Operations().ChangedKeys, w.operation),
		w.each(t.Events().ChangedKeys, w.event),
		w.each(t.Tokens().ChangedKeys, func(key string) error { return w.wake(key, notify.Tokens) }),
		w.owned(t.NodeOwners(), notify.Nodes),
		w.owned(t.VolumeOwners(), notify.Volumes))
	return w.keys, err != nil, err
}

type wakeKeys struct {
	instances map[string]bool
	keys      []string
}

func (w *wakeKeys) each(changed func() ([]string, error), do func(key string) error) error {
	keys, err := changed()
	for _, key := range keys {
		err = errors.Join(err, do(key))
	}
	return err
}

func (w *wakeKeys) wake(keys ...string) error {
	w.keys = append(w.keys, keys...)
	return nil
}

// instance wakes who waits for an instance, or for the list of them.
func (w *wakeKeys) instance(id string, err error) error {
	if err == nil && id != "" && !w.instances[id] {
		w.instances[id] = true
		err = w.wake(id, notify.Instances)
	}
	return err
}

// ofInstance is a record whose key begins with its instance.
func (w *wakeKeys) ofInstance(key string) error { return w.instance(store.InstanceOf(key), nil) }

// renamed wakes who waits for a list that shows the name of an instance.
func (w *wakeKeys) renamed(instances store.Collection[store.Instance]) error {
	changes, err := instances.Changes()
	if slices.ContainsFunc(changes, func(c store.Change[store.Instance]) bool {
		return c.After != nil && (c.Before == nil || c.Before.Name != c.After.Name)
	}) {
		return w.wake(notify.Nodes, notify.Operations, notify.Volumes)
	}
	return err
}

func (w *wakeKeys) operation(key string) error {
	id, sequence, err := store.ParseOperationKey(key)
	if err != nil {
		return err
	}
	return errors.Join(w.wake(notify.Operations, fmt.Sprintf("%s/%d", id, sequence)), w.instance(id, nil))
}

func (w *wakeKeys) event(key string) error {
	return errors.Join(w.wake(notify.Events), w.ofInstance(key))
}

// owned are nodes or volumes, and whose they were and are.
func (w *wakeKeys) owned(records store.Collection[store.Owner], list ...string) error {
	changes, err := records.Changes()
	for _, c := range changes {
		err = errors.Join(err, w.wake(c.Key), w.wake(list...))
		for _, owner := range []*store.Owner{c.Before, c.After} {
			if owner != nil {
				err = w.instance(owner.InstanceID, err)
			}
		}
	}
	return err
}
