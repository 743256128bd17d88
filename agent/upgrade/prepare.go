package upgrade

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nodehitch/nodehitch/agent/backoff"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/sleep"
)

// Run ends the probation, then prepares each build that the controller wants. It returns
// ErrNotHealthy if this build's time is over, else when ctx is done.
func (u *Upgrader) Run(ctx context.Context) error {
	if u.OnProbation() {
		if err := u.prove(ctx); err != nil {
			return err
		}
	}
	again := backoff.Backoff{Min: 10 * time.Second, Max: time.Hour, Factor: 2}
	for {
		wanted, wait := u.next()
		if wanted != nil {
			wait = u.prepare(ctx, wanted, &again)
		}
		if err := sleep.For(ctx, wait, u.changed); err != nil {
			return err
		}
	}
}

// prove waits until this build is healthy, and ends the upgrade.
func (u *Upgrader) prove(ctx context.Context) error {
	at, err := now()
	if err != nil {
		return err
	}
	u.mu.Lock()
	deadline := time.NewTimer(u.record.Until.left(at))
	u.mu.Unlock()
	defer deadline.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-deadline.C:
		u.mu.Lock()
		defer u.mu.Unlock()
		return fmt.Errorf("%w: %s", ErrNotHealthy, u.shown.Message)
	case <-u.healthy:
	}
	// The unit comes first: if this process dies in between, the next one repeats both.
	if err := u.Install(ctx); err != nil {
		u.Log.Warn("the unit could not be brought along; run `nodehitch-agent install`", "error", err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.forget(u.record); err != nil {
		return err
	}
	u.probation = false
	u.Log.Info("upgraded: the new build is healthy", "event", api.EventAgentUpgraded, "version", u.own.Version)
	return nil
}

// idle is how long to sleep with nothing to do; a change ends it.
const idle = time.Hour

// next returns the build to prepare, nil for none, and shows why. wait is how long to wait
// then.
func (u *Upgrader) next() (wanted *api.WantedAgent, wait time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	w := u.wanted
	if !u.told && u.managedBy == api.ManagedByController {
		return nil, idle // a poll says which build is wanted
	}
	if w == nil {
		u.rest("")
		return nil, idle
	}
	if u.managedBy != api.ManagedByController {
		u.rest(w.Version)
		return nil, idle
	}
	if err := u.identify(); err != nil {
		u.show(api.UpgradeFailed, w.Version, err.Error())
		return nil, idle
	}
	refused := u.record.refused(w.SHA256)
	switch {
	case w.SHA256 == u.own.SHA256:
		u.show(api.UpgradeUpToDate, u.own.Version, "")
		u.tidy()
		return nil, idle
	case refused != nil:
		u.show(api.UpgradeRolledBack, w.Version, "the build is refused: "+refused.Message)
		return nil, idle
	case u.record.To.SHA256 == w.SHA256 && time.Now().Before(u.record.RetryAt):
		u.show(u.record.Outcome, w.Version, u.record.Message)
		return nil, time.Until(u.record.RetryAt)
	case u.Guard != Previous(u.Binary):
		u.show(api.UpgradeFailed, w.Version, "no unit guards this agent: run `nodehitch-agent install` once, which writes the unit that takes back a build that does not work")
		return nil, idle
	case u.ready == w.SHA256:
		return nil, idle
	}
	return w, 0
}

// rest shows that no build is to be prepared.
func (u *Upgrader) rest(wanted string) {
	switch {
	case u.managedBy == api.ManagedByPackage:
		u.show(api.UpgradeManagedByPackage, wanted, "the package manager of the machine upgrades the agent")
	case u.managedBy == api.ManagedByNone:
		u.show(api.UpgradeDisabled, wanted, "agent.yaml says `upgrade: none`")
	case u.record.Outcome != "":
		u.show(u.record.Outcome, u.record.To.Version, u.record.Message)
	default:
		u.show(api.UpgradeUpToDate, u.own.Version, "")
	}
}

// prepare downloads and verifies a build, and has a pass end soon if it is good. It returns
// how long to wait.
func (u *Upgrader) prepare(ctx context.Context, w *api.WantedAgent, again *backoff.Backoff) time.Duration {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	u.mu.Lock()
	u.stop = stop
	u.show(api.UpgradeDownloading, w.Version, fmt.Sprintf("%d bytes", w.SizeBytes))
	u.mu.Unlock()
	err := u.fetch(ctx, w)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stop = nil
	if ctx.Err() != nil || u.wanted == nil || *u.wanted != *w {
		return 0 // the controller wants another one, or the process ends
	}
	if err != nil {
		wait := again.Next()
		u.show(api.UpgradeFailed, w.Version, err.Error())
		u.Log.Warn("the wanted build cannot be used", "version", w.Version, "error", err, "retryIn", wait.Round(time.Second))
		return wait
	}
	again.Reset()
	u.ready = w.SHA256
	u.show(api.UpgradeSwitching, w.Version, "the build is verified; the switch comes after the next pass")
	u.wake()
	return idle
}

// fetch brings the build to its place beside the binary, verified.
func (u *Upgrader) fetch(ctx context.Context, w *api.WantedAgent) error {
	ref := reference(w)
	if err := u.store.Keep([]api.FileReference{ref}); err != nil {
		return err
	}
	if err := u.store.Fetch(ctx, ref); err != nil {
		return err
	}
	return verify(ctx, u.store.Path(ref), w.Version, u.ConfigFile)
}

func reference(w *api.WantedAgent) api.FileReference {
	return api.FileReference{Sha256: w.SHA256, SizeBytes: w.SizeBytes}
}

// tidy removes what was downloaded.
func (u *Upgrader) tidy() {
	err := u.store.Keep(nil)
	if err == nil {
		err = os.Remove(u.store.Directory)
	}
	if err != nil && !os.IsNotExist(err) {
		u.Log.Warn("a download is still there", "error", err)
	}
}
