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

// mostNonces bounds how many nonces are shown to the controller in one go. One is
// right; a second where the metadata service had an old answer.
const mostNonces = 4

// prove enrolls once. Where the controller wants proof that this machine is the server,
// it reads the nonce that its metadata service shows to it, and asks again with the
// same key. Where it does not, the service is left alone.
func (d *Daemon) prove(ctx context.Context, l *link.Link, claim enroll.Claim) (*enroll.Credentials, error) {
	defer d.waitFor("")
	for n := 0; ; n++ {
		d.pulse.beat("contact", longestPlan)
		credentials, err := enroll.Enroll(ctx, l, d.files, claim)
		if !enroll.NonceRequired(err) || n == mostNonces {
			return credentials, err
		}
		if claim.Nonce, err = d.nonce(ctx, claim, err); err != nil {
			return nil, err
		}
	}
}

// nonce waits for one that the controller has not refused yet, and says so.
func (d *Daemon) nonce(ctx context.Context, claim enroll.Claim, asked error) (string, error) {
	begun := time.Now()
	said := ""
	nonce, err := d.Metadata.Nonce(ctx, metadata.Wanted{ServerID: claim.ServerID, Not: claim.Nonce}, func(why string) {
		d.waitFor(fmt.Sprintf("the controller wants proof that this machine is the server %s, and the metadata service has to give it: %s", claim.ServerID, why))
		if why != said {
			d.Log.Info("waiting for the proof that this machine is the server", "node", claim.ServerID, "demand", asked, "reason", why)
			said = why
		}
	})
	if err != nil {
		return "", err
	}
	d.Log.Info("the metadata service shows the proof that this machine is the server", "node", claim.ServerID, "after", time.Since(begun).Round(time.Millisecond))
	return nonce, nil
}

// waitFor puts up what the enrollment waits for, "" for nothing.
func (d *Daemon) waitFor(what string) {
	d.board.Change(func(s *status.Status) { s.Controller.Waiting = what })
}
