package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/nodehitch/nodehitch/controller/access"
	"github.com/nodehitch/nodehitch/controller/api"
	"github.com/nodehitch/nodehitch/controller/archive"
	"github.com/nodehitch/nodehitch/controller/attestation"
	"github.com/nodehitch/nodehitch/controller/backup"
	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/enrolment"
	"github.com/nodehitch/nodehitch/controller/files"
	"github.com/nodehitch/nodehitch/controller/gate"
	"github.com/nodehitch/nodehitch/controller/lcm"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/openstack"
	"github.com/nodehitch/nodehitch/controller/permit"
	"github.com/nodehitch/nodehitch/controller/pki"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/telemetry"
	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/version"
)

// services is everything that the controller is made of, tied together.
type services struct {
	store     *store.Store
	authority *pki.Authority
	files     *files.Service
	tokens    *access.Service
	enrolment *enrolment.Service
	permits   *permit.Service
	lcm       *lcm.Manager
	hub       *notify.Hub
	metrics   *telemetry.Metrics
	backups   *backup.Service
	handler   *api.Handler
	gate      *gate.Gate
	// clouds is nil where the configuration has none.
	clouds *openstack.Clouds
	nova   *attestation.Nova // nil where attestation is token
}

// open opens what is on disk and ties the services together. Nothing runs yet;
// the caller closes the store.
func open(c config.Config, now func() time.Time, log *slog.Logger) (*services, error) {
	s := &services{hub: new(notify.Hub), metrics: telemetry.New(version.Version)}
	s.gate = newGate(log, s.metrics.Connection)
	var err error
	s.store, err = store.Open(store.Options{
		Path:    filepath.Join(c.DataDirectory, backup.StoreFile),
		Key:     store.KeySource{File: c.KeyFile, Credential: c.KeyCredential, Create: c.KeyFile != ""},
		Now:     now,
		Observe: s.metrics.Transaction,
	})
	if err != nil {
		return nil, err
	}
	if err := s.tie(c, now, log); err != nil {
		return nil, errors.Join(err, s.store.Close())
	}
	return s, nil
}

func (s *services) tie(c config.Config, now func() time.Time, log *slog.Logger) error {
	var err error
	s.authority, err = pki.Load(pki.Options{Dir: filepath.Join(c.DataDirectory, "pki"), Names: certificateNames(c.Names), Now: now, Log: log})
	if err != nil {
		return err
	}
	blobs, err := files.OpenBlobs(c.DataDirectory, c.MaxFileBytes, now)
	if err != nil {
		return err
	}
	if s.clouds, err = openClouds(c.OpenStack, s.metrics.Cloud, log); err != nil {
		return err
	}
	s.files = &files.Service{Store: s.store, Blobs: blobs, Now: now, Log: log}
	s.backups = &backup.Service{Store: s.store, Blobs: blobs, Directory: c.DataDirectory, Version: version.Version, Keep: keptApart(c), Now: now, Log: log}
	s.tokens = &access.Service{Store: s.store, Now: now, Log: log}
	s.permits = &permit.Service{Store: s.store, Now: now, Log: log}
	s.enrolment = &enrolment.Service{Store: s.store, PKI: s.authority, Now: now, Log: log,
		Attestor: s.attestor(c, now, log), Gone: s.permits.NodeGone, Observe: s.metrics.Enrolment}
	s.lcm = lcm.New(lcm.Options{Store: s.store, Hub: s.hub, Blobs: blobs, Enrolment: s.enrolment, Permits: s.permits,
		Source: sourceOf(s.clouds), Now: now, Log: log, Cadence: time.Duration(c.Cadence.PollSeconds) * time.Second})
	s.enrolment.Changed = s.lcm.Nodes.NodeChanged
	if s.clouds != nil {
		s.enrolment.Knock = s.lcm.Discovery.Discover
	}
	s.permits.Changed = func(instanceID string) { s.planAgain(instanceID, log) }
	s.metrics.Count(s.census, log)
	s.handler, err = api.New(api.Options{
		Instances: s.lcm.Instances, Operations: s.lcm.Operations, Nodes: s.lcm.Nodes, Volumes: s.permits, Enrolment: s.enrolment,
		Tokens: s.tokens, Files: s.files, Backups: s.backups, Changes: s.hub, Metrics: s.metrics,
		Trust:          wire.Trust{Urls: c.AdvertiseURLs, RootCertificate: s.authority.RootPEM(), Pin: s.authority.Pin()},
		AgentDirectory: c.AgentDirectory, PollSeconds: c.Cadence.PollSeconds, ConvergeSeconds: c.Cadence.ConvergeSeconds,
		SpreadSeconds: (&spread{store: s.store, longest: c.Cadence.PollSeconds, now: now, log: log}).seconds,
		Ready:         s.ready, Now: now, Log: log,
	})
	return err
}

// keptApart is what no backup has and every restore needs.
func keptApart(c config.Config) []archive.Kept {
	key := c.KeyFile
	if c.KeyCredential != "" {
		key = "the systemd credential " + config.CredentialName
	}
	return []archive.Kept{
		{What: "the seal key", Where: key},
		{What: "the CA with its private keys", Where: filepath.Join(c.DataDirectory, "pki") + "/"},
	}
}

// planAgain follows an operator's word on a volume, or the end of that, which can
// change the documents of the instance's nodes.
func (s *services) planAgain(instanceID string, log *slog.Logger) {
	if err := s.lcm.Reconciler.Reconcile(context.Background(), instanceID); err != nil {
		log.Error("planning an instance again after a change of a volume", "instance", instanceID, "error", err)
	}
}

// ready says whether the store answers.
func (s *services) ready(context.Context) error {
	return s.store.View(func(tx *store.Tx) error {
		_, _, err := tx.Instances().Get("")
		return err
	})
}

func (s *services) census() (telemetry.Census, error) {
	ctx := context.Background()
	c := telemetry.Census{
		Instances: make(map[wire.InstanceState]int), Nodes: make(map[wire.NodeState]int), Operations: make(map[wire.OperationState]int),
	}
	root, intermediate, server := s.authority.Expiry()
	c.NotAfter = map[string]time.Time{"root": root, "intermediate": intermediate, "server": server}
	c.Strangers, c.Known = s.gate.Count()
	c.HandshakesPeak = s.gate.Peak()
	nodes, err := s.lcm.Nodes.ListNodes(ctx, "")
	if err != nil {
		return c, fmt.Errorf("counting nodes: %w", err)
	}
	for _, n := range nodes {
		c.Nodes[n.State]++
	}
	err = s.store.View(func(tx *store.Tx) error {
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
