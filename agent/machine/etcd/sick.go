package etcd

import (
	"context"
	"time"
)

// Patience is how long a member may be without a healthy answer before it counts as lost: one
// request may fail, and a leader be elected.
const Patience = 30 * time.Second

// Sick are the members that are not healthy, by their ids.
type Sick map[string]Illness

// Illness is since when a member has not been healthy, and why it is not.
type Illness struct {
	Since time.Time
	Why   error
}

// Examine asks each member whether it is healthy.
func (s Sick) Examine(ctx context.Context, client *Client, all []Member, now time.Time) {
	for _, m := range all {
		why := client.Healthy(ctx, m)
		if why == nil {
			delete(s, m.ID)
			continue
		}
		ill, known := s[m.ID]
		if !known {
			ill.Since = now
		}
		ill.Why = why
		s[m.ID] = ill
	}
}

// Lost reports whether a member has been sick for too long.
func (s Sick) Lost(m Member, now time.Time, patience time.Duration) bool {
	ill, is := s[m.ID]
	return is && now.Sub(ill.Since) >= patience
}
