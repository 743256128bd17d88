package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nodehitch/nodehitch/controller/api"
	"github.com/nodehitch/nodehitch/controller/attestation"
	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/connlimit"
	"github.com/nodehitch/nodehitch/controller/core"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/openstack"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/telemetry"
	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/version"
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
}

// open opens what is on disk and puts the API and the clouds to it. Nothing runs yet;
// the caller closes the store.
func open(c config.Config, now func() time.Time, log *slog.Logger) (*services, error) {
	s := &services{metrics: telemetry.New(version.Version)}
	s.limiter = newLimiter(log, s.metrics)
	var err error
	if s.clouds, err = openClouds(c.OpenStack, s.metrics.Cloud, log); err != nil {
		return nil, err
	}
	s.Core, err = core.Open(core.Options{Config: c, Source: sourceOf(s.clouds), Hub: new(notify.Hub), Metrics: s.metrics,
		Progress: starting(log), Now: now, Log: log})
	if err != nil {
		return nil, err
	}
	s.Enrollment.Attestor = s.attestor(c, now, log)
	if s.clouds != nil {
		s.Enrollment.Discover = s.LCM.Discovery.Discover
	}
	s.metrics.CollectState(s.stateMetrics, log)
	o := s.API()
	o.SpreadSeconds = (&spread{store: s.Store, longest: c.PollSeconds, now: now, log: log}).seconds
	if s.handler, err = api.New(o); err != nil {
		return nil, errors.Join(err, s.Store.Close())
	}
	return s, nil
}

func (s *services) stateMetrics() (telemetry.State, error) {
	ctx := context.Background()
	c := telemetry.State{
		Instances: make(map[wire.InstanceState]int), Nodes: make(map[wire.NodeState]int), Operations: make(map[wire.OperationState]int),
	}
	root, intermediate, server := s.Authority.Expiry()
	c.NotAfter = map[string]time.Time{"root": root, "intermediate": intermediate, "server": server}
	c.Unauthenticated, c.Authenticated = s.limiter.Count()
	c.Handshakes, c.MostHandshakes = s.limiter.Handshakes()
	nodes, err := s.LCM.Nodes.ListNodes(ctx, "", true)
	if err != nil {
		return c, fmt.Errorf("counting nodes: %w", err)
	}
	for _, n := range nodes {
		c.Nodes[n.State]++
	}
	if c.Agents, err = s.Agents.Rollout(ctx); err != nil {
		return c, fmt.Errorf("counting agents: %w", err)
	}
	err = s.Store.View(func(tx *store.Tx) error {
		instances, err := tx.Instances().All()
		if err != nil {
			return err
		}
		for _, i := range instances {
			c.Instances[i.State]++
		}
		operations, err := tx.Operations().All()
		for _, o := range operations {
			c.Operations[o.State]++
		}
		return err
	})
	return c, err
}
