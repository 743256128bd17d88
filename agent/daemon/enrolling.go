package daemon

import (
	"context"
	"errors"

	"github.com/nodehitch/nodehitch/agent/connection/enroll"
	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/agent/machine/facts"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/agent/upgrade"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/sleep"
)

// credentials returns those on disk; without any it enrolls, and retries until that
// succeeds.
func (d *Daemon) credentials(ctx context.Context) (*enroll.Credentials, error) {
	retry := enrollRetry()
	for {
		d.watchdog.alive("contact", longestPlan)
		credentials, err := d.present()
		if err == nil && credentials == nil {
			credentials, err = d.enroll(ctx)
		}
		if err == nil {
			return credentials, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		wait := retry.after(err)
		if errors.Is(err, enroll.ErrNoToken) {
			wait = idle
		}
		d.failed(err, wait)
		d.watchdog.alive("contact", wait+longestPlan)
		if err := sleep.For(ctx, wait, nil); err != nil {
			return nil, err
		}
	}
}

// present returns the credentials on disk, nil if none can be used.
func (d *Daemon) present() (*enroll.Credentials, error) {
	credentials, damaged, err := d.files.Usable()
	d.board.Change(func(s *status.Status) {
		s.Controller.Damaged = ""
		if damaged != nil && credentials == nil {
			s.Controller.Damaged = damaged.Error()
		}
	})
	return credentials, err
}

// enroll tries once. A build on probation does not: it would lock out the previous one.
func (d *Daemon) enroll(ctx context.Context) (*enroll.Credentials, error) {
	if d.Upgrade.OnProbation() {
		return nil, upgrade.ErrOnProbation
	}
	claim, err := d.Machine.Find(ctx)
	if err != nil {
		return nil, err
	}
	machine := state.Machine{NodeID: claim.ID, Source: claim.Source, ProductUUID: d.Machine.ProductUUID()}
	if before, err := d.State.Machine(); err != nil || before == nil || before.NodeID != claim.ID {
		if err := d.files.DropKeys(); err != nil { // this machine may be a copy of the one that made them
			return nil, err
		}
	}
	if err := d.State.SaveMachine(machine); err != nil {
		return nil, err
	}
	d.board.Change(func(s *status.Status) { s.NodeID, s.IdentitySource = claim.ID, claim.Source })
	l, err := link.New(d.linkOptions())
	if err != nil {
		return nil, err
	}
	defer l.Close()
	about := d.Facts
	about.UptimeSeconds = facts.UptimeSeconds()
	credentials, err := d.enrollOnce(ctx, l, enroll.Claim{Token: d.Config.JoinToken, ServerID: claim.ID, Facts: about})
	if err != nil {
		return nil, err
	}
	d.Log.Info("enrolled", "event", api.EventNodeEnrolled, "node", claim.ID, "source", claim.Source, "url", l.URL(), "notAfter", credentials.NotAfter())
	return credentials, nil
}
