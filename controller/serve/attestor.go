package serve

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/trust/attestation"
	"github.com/nodehitch/nodehitch/controller/trust/enrollment"
)

// attestor verifies that a machine is the server that it claims to be, by the cloud; it is nil if
// the join token is enough.
func (s *services) attestor(c config.Config, now func() time.Time, log *slog.Logger) func(*store.Store) enrollment.Attestor {
	if c.Attestation.Mode != config.AttestNova {
		return nil
	}
	return func(records *store.Store) enrollment.Attestor {
		s.nova = &attestation.Nova{
			Store: records, Nonce: attestation.Policy(c.Attestation.Nonce), SourceAddress: c.Attestation.SourceAddress, Now: now, Log: log,
			WithoutNonce: s.metrics.EnrollmentWithoutNonce,
			Cloud: func(ctx context.Context, vim json.RawMessage) (attestation.Cloud, error) {
				cloud, err := s.clouds.For(ctx, vim)
				if err != nil {
					return nil, err
				}
				return cloud, nil
			},
		}
		return s.nova
	}
}

// sayAttestation logs how servers are attested, and warns of what that does not prove.
func sayAttestation(c config.Config, log *slog.Logger) {
	if c.Attestation.Mode != config.AttestNova {
		log.Warn("attestation is token: a holder of an instance's join token can enroll as any expected server that has not enrolled")
		return
	}
	if c.Attestation.Nonce == config.NonceOff {
		log.Warn("attestation is nova without a nonce: a server must be in its instance's stack, but a holder of the join token can enroll as any of these that has not enrolled")
		return
	}
	log.Info("attestation is nova: a server must be in its instance's stack and must read a nonce from its metadata service",
		"nonce", c.Attestation.Nonce, "sourceAddress", c.Attestation.SourceAddress)
}
