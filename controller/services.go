package main

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/controller/api"
	"github.com/nodehitch/nodehitch/controller/attestation"
	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/connlimit"
	"github.com/nodehitch/nodehitch/controller/core"
	"github.com/nodehitch/nodehitch/controller/enrollment"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/openstack"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/telemetry"
	"github.com/nodehitch/nodehitch/controller/ui/certificate"
)

// services is everything that the controller is made of, tied together.
type services struct {
	*core.Core
	metrics *telemetry.Metrics
	handler *api.Handler
	limiter *connlimit.Limiter
	// clouds is nil if the configuration has none.
	clouds *openstack.Clouds
	nova   *attestation.Nova // nil if attestation is token
	// browsers is nil if they get the certificate that agents get.
	browsers *certificate.Certificate
	// over says why the store has closed OutcomeUnknown.
	over func() error
}

// open opens what is on disk and puts the API and the clouds to it. Nothing runs yet;
// the caller closes the store. shared is nil for a store of this controller alone.
func open(c config.Config, shared *store.Shared, metrics *telemetry.Metrics, now func() time.Time, log *slog.Logger) (*services, error) {
	s := &services{metrics: metrics}
	s.limiter = newLimiter(log, s.metrics)
	var err error
	if u := c.UICertificate; u.Configured() {
		if s.browsers, err = certificate.Open(certificate.Options{Names: u.Names, File: u.File, Key: u.Key, Now: now, Log: log}); err != nil {
			return nil, err
		}
	}
	if s.clouds, err = openClouds(c.OpenStack, s.metrics.Cloud, log); err != nil {
		return nil, err
	}
	s.Core, err = core.Open(core.Options{Config: c, Shared: shared, Source: sourceOf(s.clouds), Hub: new(notify.Hub), Metrics: s.metrics,
		Progress: starting(log), Now: now, Log: log})
	if err != nil {
		return nil, err
	}
	s.Enrollment.Attestor = s.attestor(c, now, log)
	if s.clouds != nil {
		s.Enrollment.Discover = s.LCM.Discovery.Discover
	}
	s.metrics.BeginEnrollments(slices.Concat(enrollment.Results, attestation.Refusals)...)
	s.metrics.CollectState(s.stateMetrics, now, log)
	o := s.API()
	o.SpreadSeconds = (&spread{store: s.Store, longest: c.PollSeconds, now: now, log: log}).seconds
	if s.handler, err = api.New(o); err != nil {
		return nil, errors.Join(err, s.Store.Close())
	}
	return s, nil
}
