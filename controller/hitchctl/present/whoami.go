package present

import (
	"cmp"
	"time"

	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Whoami says whom the controller takes the caller for. from is where the token was found.
func Whoami(s *screen.Screen, who api.Whoami, controller, from string, now time.Time) []string {
	p := &page{screen: s, now: now}
	p.field("Controller", controller)
	p.field("You are", who.Caller)
	p.field("Scope", string(who.Scope))
	if t := who.Token; t != nil {
		p.field("Token", t.ID+", from "+from)
		p.field("Expires", cmp.Or(p.moment(t.ExpiresAt), "never"))
	}
	return p.lines
}
