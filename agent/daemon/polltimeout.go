package daemon

import "time"

const (
	// shortestHold is the shortest hold time that the agent requests.
	shortestHold = 2 * time.Second
	// forgetAfter is how long a shorter hold time is used before the agent tries the
	// full one again. Then one cut is enough to return to the shorter time.
	forgetAfter = time.Hour
)

// pollTimeout decides how long a poll may be held. If a proxy, firewall or NAT drops
// idle connections, long polls fail one after the other although the controller
// answers each new request at once. The agent then requests shorter polls: a few more
// requests are better than a node that does not notice changes while its poll hangs.
// A controller that is down or restarts is different: the next request fails too, or
// the next poll is held to its end.
type pollTimeout struct {
	hold     time.Duration // what the controller said last
	asked    time.Duration // what the agent requests instead, 0 = nothing
	learned  time.Time     // when asked was set
	died     int           // long polls that failed in a row
	shortest time.Duration // of these
}

// wait is the hold time to request, 0 for the controller's own.
func (p *pollTimeout) wait() time.Duration { return p.asked }

// limit is how long to wait for the answer of a poll. The controller holds a long
// poll for the hold time plus or minus a tenth.
func (p *pollTimeout) limit(long bool) time.Duration {
	switch {
	case !long:
		return holdMargin
	case p.asked > 0:
		return p.asked + holdMargin
	}
	return p.hold + p.hold/10 + holdMargin
}

// held records that a long poll was answered.
func (p *pollTimeout) held(took time.Duration, now time.Time) {
	if took < p.expected()*9/10 {
		return // a new document ended it, which says nothing about idle timeouts
	}
	p.died = 0
	if p.asked > 0 && now.Sub(p.learned) > forgetAfter {
		p.asked, p.died, p.shortest = 0, 1, p.asked
	}
}

// lost records that a long poll failed, by a timeout or a closed connection. It reports
// whether the agent requests a shorter hold time from now on.
func (p *pollTimeout) lost(after time.Duration, now time.Time) bool {
	bearable := after * 3 / 4
	if after >= p.expected() { // the connection was dropped at an unknown time
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

// away records that the controller did not answer a new request either: the earlier
// failures may have been its own.
func (p *pollTimeout) away() { p.died = 0 }

func (p *pollTimeout) expected() time.Duration {
	if p.asked > 0 {
		return p.asked
	}
	return p.hold
}
