package serve

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack"
	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/core"
	"github.com/nodehitch/nodehitch/controller/httpapi"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/telemetry"
	"github.com/nodehitch/nodehitch/controller/traffic/connlimit"
	"github.com/nodehitch/nodehitch/controller/trust/attestation"
	"github.com/nodehitch/nodehitch/controller/trust/enrollment"
	"github.com/nodehitch/nodehitch/controller/ui/certificate"
)

// services is everything that the controller is made of, tied together.
type services struct {
	*core.Core
	metrics *telemetry.Metrics
	// namesLost: the metrics name the VNFCs that are lost.
	namesLost bool
	handler   *httpapi.Handler
	limiter   *connlimit.Limiter
	// clouds is nil if the configuration has none.
	clouds *openstack.Clouds
	nova   *attestation.Nova // nil if attestation is token
	// browsers is nil if they get the certificate that agents get.
	browsers *certificate.Certificate
}

// openBrowsers is the certificate for browsers, nil if they get the one that agents get.
func openBrowsers(c config.Config, now func() time.Time, log *slog.Logger) (*certificate.Certificate, error) {
	u := c.UICertificate
	if !u.Configured() {
		return nil, nil
	}
	return certificate.Open(certificate.Options{Names: u.Names, File: u.File, Key: u.Key, Now: now, Log: log})
}

// open opens what is on disk and puts the API and the clouds to it. Nothing runs yet;
// the caller closes the store. as is nil for a controller with a store of its own.
func open(c config.Config, as *leadership, metrics *telemetry.Metrics, now func() time.Time, log *slog.Logger) (*services, error) {
	s := &services{metrics: metrics, namesLost: c.MetricsLostVNFCs}
	s.limiter = newLimiter(log, s.metrics)
	var err error
	if s.browsers, err = openBrowsers(c, now, log); err != nil {
		return nil, err
	}
	if s.clouds, err = openClouds(c.OpenStack, s.metrics.Cloud, log); err != nil {
		return nil, err
	}
	o := core.Options{Config: c, Source: sourceOf(s.clouds), Discovers: s.clouds != nil, Attestor: s.attestor(c, now, log),
		Hub: new(notify.Hub), Metrics: s.metrics, Progress: starting(log), Now: now, Log: log}
	if as != nil {
		as.options(&o)
	}
	s.Core, err = core.Open(o)
	if err != nil {
		return nil, err
	}
	s.metrics.BeginEnrollments(slices.Concat(enrollment.Results, attestation.Refusals)...)
	s.metrics.CollectState(s.stateMetrics, now, log)
	over := &spread{store: s.Store, longest: c.PollSeconds, now: now, log: log}
	if s.handler, err = httpapi.New(s.API(over.seconds)); err != nil {
		return nil, errors.Join(err, s.Store.Close())
	}
	return s, nil
}
