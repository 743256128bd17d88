package describe

import (
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// OfReplica is the tone of a replica. A follower that has not told its lag yet is Waiting.
func OfReplica(r api.Replica) Tone {
	switch {
	case r.Message != "":
		return Bad
	case r.State == api.ReplicaLeader, r.LagSeconds != nil:
		return Good
	case r.State == api.ReplicaFollower:
		return Waiting
	}
	return Plain
}

// Lag is how far a replica is behind the leader, None if that is not known or it has no state.
func Lag(r api.Replica) string {
	if r.LagSeconds == nil {
		return None
	}
	return Precise(time.Duration(*r.LagSeconds * float64(time.Second)))
}
