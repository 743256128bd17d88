package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/nodehitch/nodehitch/agent/connection/enroll"
	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/agent/connection/metadata"
	"github.com/nodehitch/nodehitch/agent/status"
)

// mostNonces is how many nonces one enrollment may try. One is usual; a second is
// needed if the metadata service had a stale answer.
const mostNonces = 4

// enrollOnce enrolls. If the controller requires proof that this machine is the server,
// it reads the nonce from the metadata service and enrolls again with the same key;
// otherwise it does not use the metadata service.
func (d *Daemon) enrollOnce(ctx context.Context, l *link.Link, claim enroll.Claim) (*enroll.Credentials, error) {
	defer d.waitFor("")
	for n := 0; ; n++ {
		d.watchdog.alive("contact", longestPlan)
		credentials, err := enroll.Enroll(ctx, l, d.files, claim)
		if !enroll.NonceRequired(err) || n == mostNonces {
			return credentials, err
		}
		if claim.Nonce, err = d.nonce(ctx, claim, err); err != nil {
			return nil, err
		}
	}
}

// nonce waits for a nonce that the controller has not refused yet, and shows that in
// the status.
func (d *Daemon) nonce(ctx context.Context, claim enroll.Claim, asked error) (string, error) {
	begun := time.Now()
	said := ""
	nonce, err := d.Metadata.Nonce(ctx, metadata.Wanted{ServerID: claim.ServerID, Not: claim.Nonce}, func(why string) {
		d.waitFor(fmt.Sprintf("the controller wants proof that this machine is the server %s, and the metadata service has to give it: %s", claim.ServerID, why))
		if why != said {
			d.Log.Info("waiting for the metadata service's proof that this machine is the server", "node", claim.ServerID, "demand", asked, "reason", why)
			said = why
		}
	})
	if err != nil {
		return "", err
	}
	d.Log.Info("read the metadata service's proof that this machine is the server", "node", claim.ServerID, "after", time.Since(begun).Round(time.Millisecond))
	return nonce, nil
}

// waitFor shows what the enrollment waits for, "" for nothing.
func (d *Daemon) waitFor(what string) {
	d.board.Change(func(s *status.Status) { s.Controller.Waiting = what })
}
