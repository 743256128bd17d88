package api

// Quiet is the replica without what changes all the time.
func (r Replica) Quiet() Replica {
	r.LagSeconds = nil
	return r
}
