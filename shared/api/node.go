package api

// Quiet is the node without what changes all the time.
func (n Node) Quiet() Node {
	n.LastSeenAt = nil
	return n
}
