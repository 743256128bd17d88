package jsontree

import (
	"strconv"
	"strings"

	"github.com/nodehitch/nodehitch/shared/fault"
)

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// Find is the value at a place below n, given from n; if there is none, the nearest value
// above it that exists. If a member is given twice, it is the last.
func (n *Node) Find(at fault.At) *Node {
	if at == fault.Root {
		return n
	}
	for step := range strings.SplitSeq(strings.TrimPrefix(string(at), "/"), "/") {
		next := n.step(step)
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

func (n *Node) step(step string) *Node {
	if n.Kind == List {
		i, err := strconv.Atoi(step)
		if err != nil || i < 0 || i >= len(n.Items) {
			return nil
		}
		return n.Items[i]
	}
	return n.Get(unescape.Replace(step))
}
