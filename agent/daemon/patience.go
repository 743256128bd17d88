package daemon

import "time"

const (
	// shortestHold is the shortest time for which a poll is asked to be held.
	shortestHold = 2 * time.Second
	// forgetAfter is how long what was learned of the way is believed. Then the full
	// time is tried again; where that is cut off still, once is enough to know.
	forgetAfter = time.Hour
)

// patience knows for how long a poll can be held on the way that there is. A proxy, a
// firewall or a NAT that gives up connections which are silent shows in polls that die
// while they are parked, one after the other, although the controller answers at once
// when it is asked again. Then shorter polls are asked for: a node that hears of
// nothing for as long as its polls hang is worse than a few more requests. A
// controller that is away, or restarts, shows otherwise: asking again fails too, or
// the next poll is held to its end.
type patience struct {
	hold     time.Duration // what the controller said last
	asked    time.Duration // what is asked for instead, 0 = nothing
	learned  time.Time     // when asked was set
	died     int           // parked polls in a row that died
	shortest time.Duration // of these
}

// wait is what to ask for, 0 for the controller's own cadence.
func (p *patience) wait() time.Duration { return p.asked }

// limit is how long a poll may go unanswered before it is given up. The controller
// holds it for its cadence, give or take a tenth.
func (p *patience) limit(parked bool) time.Duration {
	switch {
	case !parked:
		return holdMargin
	case p.asked > 0:
		return p.asked + holdMargin
	}
	return p.hold + p.hold/10 + holdMargin
}

// held notes that a parked poll was answered after so long.
func (p *patience) held(took time.Duration, now time.Time) {
	if took < p.expected()*9/10 {
		return // a new document came in between; it says nothing of the way
	}
	p.died = 0
	if p.asked > 0 && now.Sub(p.learned) > forgetAfter {
		p.asked, p.died, p.shortest = 0, 1, p.asked
	}
}

// lost notes that a parked poll died after so long, by silence or by an end of the
// connection. It reports whether a shorter time is asked for from now on.
func (p *patience) lost(after time.Duration, now time.Time) bool {
	bearable := after * 3 / 4
	if after >= p.expected() { // nobody said when it was forgotten
		bearable = p.expected() / 3
	}
	if p.died++; p.died == 1 || bearable < p.shortest {
		p.shortest = bearable
	}
	if p.died < 2 || p.shortest >= p.expected() {
		return false
	}
	p.asked, p.learned, p.died = max(p.shortest.Truncate(time.Second), shortestHold), now, 0
	return true
}

// away notes that the controller was not there when it was asked again: whatever
// ended the polls before, it need not have been the way.
func (p *patience) away() { p.died = 0 }

func (p *patience) expected() time.Duration {
	if p.asked > 0 {
		return p.asked
	}
	return p.hold
}
