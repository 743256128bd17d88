package upgrade

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	// maxStarts is the start at which a build that never became healthy is taken back.
	maxStarts = 3
	// maxBoots is how many boots a build may be on probation. A machine that loses its power
	// again and again says nothing about the build.
	maxBoots = 5
	// checkLimit is far below the unit's TimeoutStartSec: after a check that takes longer,
	// systemd would not start the agent, whatever the - of ExecStartPre says.
	checkLimit = 30 * time.Second
)

// Guard is the old build's side of an upgrade: the unit runs the previous build before
// each start of the binary. It takes back a new build that does not become healthy. It
// does nothing of the new build's, so none can stand in its way.
type Guard struct {
	State *state.Directory
	// Self is the file that runs: the previous build.
	Self string
	// Answers reports whether any controller answers this machine now.
	Answers func(context.Context) bool
	// Later has Overdue called after this time, whatever the new build does.
	Later func(context.Context, time.Duration) error
	Log   *slog.Logger
}

// Check decides which build the service manager starts now, and puts it there. It ends in
// time. After a crash of it at any point, the next Check goes on.
func (g Guard) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	r, binary, err := g.inProgress()
	if binary == "" || err != nil {
		return err
	}
	if r.Outcome == "" {
		if err := g.count(ctx, &r); err != nil {
			return err
		}
	}
	if r.Outcome == "" {
		return nil
	}
	return g.rollBack(binary, r)
}

// Overdue reports whether the new build has not become healthy in its time, and has to be
// stopped for Check to take it back.
func (g Guard) Overdue() (bool, error) {
	r, binary, err := g.inProgress()
	if binary == "" || err != nil {
		return false, err
	}
	at, err := now()
	return r.open() && r.Until.Boot == at.Boot && r.Until.left(at) <= 0, err
}

// inProgress returns the record and the binary if that is the new build of the record, and
// this is the old one. binary is "" if there is nothing to decide: no upgrade, one whose
// rename did not happen, or somebody has put a third build there.
func (g Guard) inProgress() (r Record, binary string, err error) {
	if binary = replaces(g.Self); binary == "" {
		return r, "", fmt.Errorf("%s is not the previous build of an agent", g.Self)
	}
	if r, err = load(g.State); err != nil || r.To.SHA256 == "" {
		return r, "", err
	}
	there, err := digestOf(binary)
	if err != nil || there != r.To.SHA256 {
		return r, "", err
	}
	self, err := digestOf(g.Self)
	if err == nil && self != r.From.SHA256 {
		err = fmt.Errorf("%s is not the build %s that the upgrade began with; nothing is rolled back", g.Self, r.From.Version)
	}
	return r, binary, err
}

// count counts this start and decides whether it is one too many. The record lasts before
// the new build starts.
func (g Guard) count(ctx context.Context, r *Record) error {
	at, err := now()
	if err != nil {
		return err
	}
	if r.Until.Boot != at.Boot { // the time before the boot says nothing about the build
		r.Boots++
		r.begin(at, r.probation())
	}
	r.Starts++
	switch {
	case r.Boots > maxBoots:
		g.unjudged(r, fmt.Sprintf("the machine was started %d times before it was healthy", r.Boots-1))
	case r.Starts >= maxStarts:
		g.decide(ctx, r, fmt.Sprintf("it was started %d times without becoming healthy", r.Starts-1))
	case r.Until.left(at) <= 0 && !r.Extended && g.Answers(ctx):
		// Perhaps the controller was away until now. The build starts anew and finds it.
		r.Extended = true
		r.begin(at, r.probation()*2/5)
		r.Starts++
		g.Log.Warn("the new build is not healthy in its time; it gets a little more, because a controller answers now", "version", r.To.Version, "deadline", r.Deadline)
	case r.Until.left(at) <= 0:
		g.decide(ctx, r, fmt.Sprintf("it was not healthy within %s", r.probation()))
	}
	if err := save(g.State, *r); err != nil || r.Outcome != "" {
		return err
	}
	if err := g.Later(ctx, r.Until.left(at)); err != nil {
		g.Log.Warn("nothing will stop the new build if it hangs and still feeds the watchdog", "error", err)
	}
	return nil
}

// begin starts the build's time.
func (r *Record) begin(at moment, probation time.Duration) {
	r.Until, r.Deadline, r.Starts = at.after(probation), time.Now().Add(probation).UTC().Truncate(time.Second), 0
}

// decide takes the build back for ever, if it failed although a controller answers.
func (g Guard) decide(ctx context.Context, r *Record, why string) {
	if !g.Answers(ctx) {
		g.unjudged(r, why+", and no controller answers the old build either")
		return
	}
	r.Outcome, r.Message = api.UpgradeRolledBack, "the build is refused from now on: "+why
	r.refuse(r.To, why, time.Now().UTC().Truncate(time.Second))
}

// unjudged takes the build back for now. It is tried again, each time later.
func (g Guard) unjudged(r *Record, why string) {
	r.Outcome, r.Message = api.UpgradeRolledBackUnjudged, "the build may be tried again: "+why
	r.RetryAt = time.Now().Add(r.probation() << min(r.Unjudged, 8)).UTC().Truncate(time.Second)
	r.Unjudged++
}

// rollBack puts this build back. The record with the outcome lasts already, so that the
// build stays refused whatever comes.
func (g Guard) rollBack(binary string, r Record) error {
	restored, err := restoreIdentity(g.State)
	if err != nil { // without it the old build still does more for the machine than the new one
		g.Log.Error("the identity could not be restored", "error", err)
	}
	if len(restored) > 0 {
		g.Log.Warn("the new build had changed the identity; it is restored", "files", strings.Join(restored, " "))
	}
	g.Log.Warn("rolled back", "event", api.EventAgentRolledBack, "from", r.To.Version, "to", r.From.Version, "reason", r.Outcome, "message", r.Message)
	return replace(g.Self, binary)
}
