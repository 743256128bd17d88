package tx

import (
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
)

// Operation is an operation of the instance that has to be there.
func (t *Tx) Operation(sequence int64) (store.Operation, error) {
	op, found, err := t.Operations().Get(store.OperationKey(t.Instance.ID, sequence))
	if err == nil && !found {
		err = fmt.Errorf("operation %d of VNF instance %s is missing from the store", sequence, t.Instance.ID)
	}
	return op, err
}

// SaveOperation writes an operation of the instance.
func (t *Tx) SaveOperation(op store.Operation) error {
	t.Changed(notify.Operations, op.ID)
	return t.Operations().Put(store.OperationKey(t.Instance.ID, op.Sequence), op)
}

// History is the operations of the instance that are kept, newest first.
func (t *Tx) History() ([]store.Operation, error) {
	history, err := t.Operations().Prefix(store.InstancePrefix(t.Instance.ID))
	slices.Reverse(history)
	return history, err
}
