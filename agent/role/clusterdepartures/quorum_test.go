package clusterdepartures

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/etcd"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A member is removed only if those that stay have a quorum without it. One that has just stopped
// answering makes the departure wait.
func TestTheQuorumOfThoseThatStay(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const justNow, long = time.Second, etcd.Patience
	const waits, refuses = "waits", "refuses"
	for _, c := range []struct {
		members, learners, leave int // the members are numbered; the last ones leave
		sick                     map[int]time.Duration
		want                     string
	}{
		{members: 3, leave: 1},
		{members: 3, leave: 2},
		{members: 3, leave: 1, sick: map[int]time.Duration{2: long}}, // the one that leaves
		{members: 3, leave: 1, sick: map[int]time.Duration{0: long}, want: refuses},
		{members: 3, leave: 1, sick: map[int]time.Duration{0: justNow}, want: waits},
		{members: 3, leave: 1, sick: map[int]time.Duration{0: etcd.Patience - 1}, want: waits},
		{members: 4, leave: 1, sick: map[int]time.Duration{0: long}},
		{members: 4, leave: 1, sick: map[int]time.Duration{0: long, 1: justNow}, want: waits},
		{members: 4, leave: 1, sick: map[int]time.Duration{0: long, 1: long}, want: refuses},
		{members: 5, leave: 2, sick: map[int]time.Duration{0: long}},
		{members: 6, leave: 1, sick: map[int]time.Duration{0: long, 1: long, 2: justNow}, want: waits},
		{members: 2, learners: 1, leave: 1},
		{members: 3, learners: 2, leave: 1, sick: map[int]time.Duration{0: long}, want: refuses},
		{members: 1, leave: 1, want: refuses}, // nobody would be left
	} {
		t.Run(fmt.Sprintf("%d and %d learners, %d leave, sick %v", c.members, c.learners, c.leave, c.sick), func(t *testing.T) {
			d := departures{drainage: &drainage{cluster: cluster{now: func() time.Time { return now }}}, sick: etcd.Sick{}}
			var all []etcd.Member
			for i := range c.members + c.learners {
				m := etcd.Member{ID: fmt.Sprint(i), Name: fmt.Sprintf("master-%d", i), Learner: i >= c.members}
				if ago, is := c.sick[i]; is {
					d.sick[m.ID] = etcd.Illness{Since: now.Add(-ago), Why: errors.New("no answer")}
				}
				all = append(all, m)
			}
			got := ""
			var waiting *converge.Waiting
			var terminal *converge.Terminal
			err := d.check(all, all[c.members-c.leave:c.members])
			switch {
			case errors.As(err, &waiting):
				got = waits
			case errors.As(err, &terminal) && terminal.Reason == api.ReasonQuorumAtRisk:
				got = refuses
			case err != nil:
				t.Error(err)
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
