package store

import (
	"fmt"

	"github.com/nodehitch/nodehitch/shared/api"
)

// limits are how large a commit may be.
type limits struct {
	// changes is how many keys it may change, bytes how many bytes these may have together:
	// each its bucket, its key, its value and overhead.
	changes, bytes, overhead int
}

// count begins to count what a commit has.
func (l *limits) count() *count { return &count{limits: l} }

type count struct {
	*limits
	hasChanges, hasBytes int
}

// alone refuses what is too large for a commit of its own.
func (c *count) alone(writes writeSet) error {
	if c.limits == nil {
		return nil
	}
	changes, bytes := c.of(writes)
	if changes <= c.changes && bytes <= c.bytes {
		return nil
	}
	return api.NewProblem(api.ProblemTooLarge, fmt.Sprintf("it changes %d records with %d bytes at once, and the controller's etcd takes at most %d with %d: "+
		"divide the instance, or raise etcd's --max-txn-ops and --max-request-bytes and restart the controller; nothing has been changed", changes, bytes, c.changes, c.bytes))
}

// add reports whether there is room for more, which then counts. A key that was changed
// before counts again, so that each update is looked at once.
func (c *count) add(writes writeSet) bool {
	if c.limits == nil {
		return true
	}
	changes, bytes := c.of(writes)
	if c.hasChanges+changes > c.changes || c.hasBytes+bytes > c.bytes {
		return false
	}
	c.hasChanges, c.hasBytes = c.hasChanges+changes, c.hasBytes+bytes
	return true
}

func (l *limits) of(writes writeSet) (changes, bytes int) {
	for bucket, keys := range writes {
		if len(keys) == 0 { // it is created; one that has keys at once is not counted
			changes, bytes = changes+1, bytes+len(bucket)+l.overhead
		}
		for key, value := range keys {
			changes, bytes = changes+1, bytes+len(bucket)+len(key)+len(value)+l.overhead
		}
	}
	return changes, bytes
}
