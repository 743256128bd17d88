package upgrade

import (
	"fmt"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// Switch puts the build that is ready in the place of this one, and returns ErrSwitched. It
// must be called between two passes, with the document in force, which is nil before the
// first. It returns nil if no build is ready, or if this is not the moment; it is then
// called again after the next pass.
func (u *Upgrader) Switch(doc *api.NodeConfig, connected bool) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	w := u.wanted
	if w == nil || u.ready != w.SHA256 {
		return nil
	}
	if why := u.notNow(doc, connected); why != "" {
		u.show(api.UpgradeSwitching, w.Version, "waits: "+why)
		return nil
	}
	err := u.exchange(w)
	if there, failed := digestOf(u.Binary); failed == nil && there == w.SHA256 {
		u.show(api.UpgradeSwitching, w.Version, "the service manager starts the build")
		return ErrSwitched // also if its name may not last: the record lasts
	}
	u.ready = ""
	u.show(api.UpgradeFailed, w.Version, err.Error())
	if err := u.forget(u.record); err != nil {
		u.Log.Warn("the record of an upgrade that failed is still there; the next start drops it", "error", err)
	}
	u.poke()
	return nil
}

// notNow says what the switch waits for, "" if it may happen. With a controller that
// answers now, a build that does not find one can be judged.
func (u *Upgrader) notNow(doc *api.NodeConfig, connected bool) string {
	if !connected {
		return "the controller does not answer"
	}
	if doc != nil && (u.last == nil || u.last.doc != doc) {
		return "a pass for the newest configuration"
	}
	why, err := u.Waits()
	if err != nil {
		return err.Error()
	}
	return why
}

// exchange swaps the builds under a new record.
func (u *Upgrader) exchange(w *api.WantedAgent) error {
	there, err := digestOf(u.Binary)
	if err != nil {
		return err
	}
	if there != u.own.SHA256 {
		return fmt.Errorf("%s is not the build that runs; restart the agent first", u.Binary)
	}
	at, err := now()
	if err != nil {
		return err
	}
	r := Record{From: u.own, To: Build{w.Version, w.SHA256}, ProbationSeconds: int(u.Probation.Seconds()), Refused: u.record.Refused}
	if u.record.To == r.To {
		r.Unjudged = u.record.Unjudged
	}
	r.begin(at, u.Probation)
	if u.last != nil {
		if r.Before, err = expect(u.last.doc, u.last.conditions); err != nil {
			return err
		}
	}
	u.record = r
	u.Log.Info("switching to another build", "event", api.EventAgentUpgrade, "from", r.From.Version, "to", r.To.Version, "deadline", r.Deadline.Format(time.RFC3339))
	return swap(u.State, u.Binary, u.store.Path(reference(w)), r)
}
