package daemon

import (
	"testing"
	"time"
)

// way is the network between agent and controller. It ends a connection that has been silent
// for so long (0 = never), or drops it silently.
type way struct {
	idle   time.Duration
	silent bool
}

// poll is one parked poll over the way, and the request after it if it died.
func (w way) poll(p *pollTimeout, now time.Time) (took time.Duration, died bool) {
	held := p.expected()
	switch {
	case w.idle == 0 || held < w.idle:
		p.held(held, now)
		return held, false
	case w.silent:
		took = p.limit(true)
	default:
		took = w.idle
	}
	p.lost(took, now)
	return took, true
}

// Whatever silence the way allows, polls fit it within a few attempts and stay so. When it
// allows longer silences again, polls get longer again.
func TestPollTimeoutFitsTheWay(t *testing.T) {
	for _, hold := range []time.Duration{5 * time.Second, 30 * time.Second, 5 * time.Minute} {
		for _, idle := range []time.Duration{3 * time.Second, 10 * time.Second, time.Minute, 4 * time.Minute} {
			for _, silent := range []bool{false, true} {
				now := time.Now()
				p := pollTimeout{hold: hold}
				w := way{idle, silent}
				died := 0
				for range 16 {
					took, dead := w.poll(&p, now)
					now = now.Add(took)
					if dead {
						died++
					}
				}
				if _, dead := w.poll(&p, now); dead || died > 10 {
					t.Errorf("hold %v, idle %v, silent %v: %d polls died, and asks for %v", hold, idle, silent, died, p.wait())
				}
				if idle > hold && died+int(p.wait()) != 0 {
					t.Errorf("hold %v, idle %v: %d died, asks for %v", hold, idle, died, p.wait())
				}
				died = 0
				for until := now.Add(24 * time.Hour); now.Before(until); {
					took, dead := w.poll(&p, now)
					now = now.Add(took)
					if dead {
						died++
					}
				}
				if died > 24*4 {
					t.Errorf("hold %v, idle %v, silent %v: %d polls died in a day", hold, idle, silent, died)
				}
				w.idle = 0
				for until := now.Add(2 * time.Hour); now.Before(until); {
					took, _ := w.poll(&p, now)
					now = now.Add(took)
				}
				if p.wait() != 0 {
					t.Errorf("hold %v, idle %v: goes on asking for %v on a good way", hold, idle, p.wait())
				}
			}
		}
	}
}

// Polls that end because the controller stops say nothing about the way.
func TestPollTimeoutOfARestartingController(t *testing.T) {
	p := pollTimeout{hold: 30 * time.Second}
	for range 50 {
		p.lost(7*time.Second, time.Now())
		p.away() // nothing listens
	}
	p.lost(7*time.Second, time.Now())
	p.held(30*time.Second, time.Now())
	p.held(2*time.Second, time.Now()) // a new document
	p.lost(7*time.Second, time.Now())
	if p.wait() != 0 {
		t.Errorf("asks for %v", p.wait())
	}
}

func TestLimitIsLongerThanTheControllerHolds(t *testing.T) {
	for _, hold := range []time.Duration{5 * time.Second, 5 * time.Minute} {
		p := pollTimeout{hold: hold}
		if got, least := p.limit(true), hold*11/10+10*time.Second; got < least {
			t.Errorf("held for up to %v, and given up after %v", hold*11/10, got)
		}
		if got := p.limit(false); got != holdMargin {
			t.Errorf("a question that is answered at once has %v", got)
		}
	}
}
