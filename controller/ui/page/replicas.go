package page

import (
	"strconv"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/shared/api"
)

// replicaShown is a controller among those that share the store.
type replicaShown struct {
	ID, Version string
	Badge       badge
	// Term and Since are of the leader.
	Term  string
	Since stamp
	// Message is why a follower does not follow the leader. Its lag changes all the time: it is not shown.
	Message string
}

func shownReplicas(f Frame, list []api.Replica) (shown []replicaShown) {
	for _, r := range list {
		s := replicaShown{ID: r.ID, Version: r.Version, Badge: toned(describe.OfReplica(r), string(r.State)), Since: f.stamp(showFor, r.LeaderSince), Message: r.Message}
		if r.Term != 0 {
			s.Term = strconv.FormatInt(r.Term, 10)
		}
		shown = append(shown, s)
	}
	return shown
}
