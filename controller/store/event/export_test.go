package event

import (
	"maps"
	"slices"
)

// Enrolled are the nodes that are kept until they are Ready.
func (l *Log) Enrolled() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.enrolled))
}
