// Package core ties together what a controller is made of behind its listeners: the
// store, the CA, and the services over them, on one data directory. It is the one place
// where these know each other, for the program and for tests. Nothing in it runs by
// itself.
package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/nodehitch/nodehitch/controller/agentupgrade"
	"github.com/nodehitch/nodehitch/controller/backup"
	"github.com/nodehitch/nodehitch/controller/backup/archive"
	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/httpapi"
	"github.com/nodehitch/nodehitch/controller/lifecycle"
	"github.com/nodehitch/nodehitch/controller/lifecycle/presence"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/permit"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/controller/store/files"
	"github.com/nodehitch/nodehitch/controller/telemetry"
	"github.com/nodehitch/nodehitch/controller/trust/access"
	"github.com/nodehitch/nodehitch/controller/trust/enrollment"
	"github.com/nodehitch/nodehitch/controller/trust/pki"
	"github.com/nodehitch/nodehitch/controller/ui"
	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/version"
)

// Options are what a controller is opened with. Those that may be nil say so; all others are required.
type Options struct {
	Config config.Config
	// Shared is the store if several controllers share it, nil for a file of this one alone.
	Shared *store.Shared
	// Blobs are the package files of a replica, which others have too; nil for those of the data
	// directory alone.
	Blobs *files.Blobs
	// Replicas are the controllers that share the store; nil for none.
	Replicas httpapi.Replicas
	// MayMigrate is asked before the schema of the store is changed; nil for always.
	MayMigrate func() error
	// Source is where topologies come from. Discovers: servers that no topology names are looked
	// for in it.
	Source    stack.Source
	Discovers bool
	// Attestor verifies that machines are the servers that they claim to be, by the records of
	// the store; nil trusts the join token alone.
	Attestor func(*store.Store) enrollment.Attestor
	// Hub wakes the waiters when something changes.
	Hub     *notify.Hub
	Metrics *telemetry.Metrics
	// Progress is called again and again while Open takes long.
	Progress func()
	Now      func() time.Time
	Log      *slog.Logger
}

// Core is the services.
type Core struct {
	Store      *store.Store
	Authority  *pki.Authority
	Blobs      *files.Blobs
	Files      *files.Service
	Tokens     *access.Service
	Enrollment *enrollment.Service
	Permits    *permit.Service
	Lifecycle  *lifecycle.Manager
	Agents     *agentupgrade.Service
	Hub        *notify.Hub
	Backups    *backup.Service
	Events     *event.Log
	UI         *ui.UI

	o Options
}

// SealKey is where the key of the secrets in the store lies.
func SealKey(c config.Config) store.KeySource {
	return store.KeySource{File: c.SealKeyFile, Credential: c.KeyCredential}
}

// Open opens what is on disk and ties the services together. The caller closes the store.
func Open(o Options) (*Core, error) {
	c := &Core{Hub: o.Hub, Events: &event.Log{Hub: o.Hub, Now: o.Now, Keep: event.Kept, Log: o.Log, Metrics: o.Metrics}, o: o}
	var err error
	var saved string
	newKey := Missing(o.Config.SealKeyFile)
	key := SealKey(o.Config)
	key.Create = o.Config.SealKeyFile != ""
	var path string
	if o.Shared == nil {
		path = filepath.Join(o.Config.DataDirectory, backup.StoreFile)
	}
	c.Store, err = store.Open(store.Options{
		Path:    path,
		Shared:  o.Shared,
		Key:     key,
		Now:     o.Now,
		Derive:  c.Events.Derive,
		Observe: o.Metrics.Transaction,
		BeforeMigration: func(s *store.Store) (err error) {
			if o.MayMigrate != nil {
				if err := o.MayMigrate(); err != nil {
					return err
				}
			}
			saved, err = c.backUp(s)
			return err
		},
	})
	if err != nil {
		return nil, backup.ExplainNewer(o.Config.DataDirectory, err)
	}
	if saved != "" {
		o.Log.Info("the store has a newer schema", "event", wire.EventStoreMigrated, "schema", c.Store.Schema(), "backup", saved)
	}
	if newKey {
		o.Log.Warn("a seal key was created: keep a copy of it apart from the backups, which cannot be read without it", "file", o.Config.SealKeyFile)
	}
	if err := errors.Join(c.Events.Load(c.Store), keepOthersOut(o.Config.DataDirectory, o.Log), c.tie(o)); err != nil {
		return nil, errors.Join(err, c.Store.Close())
	}
	for _, url := range notInCertificate(o.Config) {
		o.Log.Warn("agents refuse this address of the controller: add its host to `names`, which the certificate is for", "url", url)
	}
	return c, nil
}

// backUp writes a backup before the schema of the store is changed, and returns its path.
func (c *Core) backUp(s *store.Store) (path string, err error) {
	blobs, err := c.blobs()
	if err != nil {
		return "", err
	}
	c.o.Log.Info("the store has an older schema: backing it up first", "schema", s.Schema(), "expected", store.Schema())
	return c.backups(s, blobs).BeforeMigration(context.Background(), c.o.Progress)
}

func (c *Core) blobs() (*files.Blobs, error) {
	if c.o.Blobs != nil {
		return c.o.Blobs, nil
	}
	return files.OpenBlobs(c.o.Config.DataDirectory, c.o.Config.MaxFileBytes, c.o.Now)
}

func (c *Core) backups(s *store.Store, blobs *files.Blobs) *backup.Service {
	return &backup.Service{Store: s, Blobs: blobs, Directory: c.o.Config.DataDirectory, Version: version.Version,
		Excluded: keptApart(c.o.Config, c.o.Shared != nil), Now: c.o.Now, Log: c.o.Log}
}

func (c *Core) tie(o Options) error {
	// The user_data of the first instance is the first to name the root.
	var instances int
	err := c.Store.View(func(tx *store.Tx) (err error) {
		instances, err = tx.Instances().Len()
		return err
	})
	if err != nil {
		return err
	}
	authority := pki.Options{Dir: filepath.Join(o.Config.DataDirectory, "pki"), Names: CertificateNames(o.Config.Names), RootExists: instances > 0,
		Now: o.Now, Log: o.Log}
	if o.Shared != nil {
		authority.Store = c.Store
	}
	if c.Authority, err = pki.Load(authority); err != nil {
		return err
	}
	if c.Blobs, err = c.blobs(); err != nil {
		return err
	}
	c.Files = &files.Service{Store: c.Store, Blobs: c.Blobs, Now: o.Now, Log: o.Log}
	c.Backups = c.backups(c.Store, c.Blobs)
	c.Tokens = &access.Service{Store: c.Store, Hub: c.Hub, Now: o.Now, Log: o.Log}
	seen := &presence.Presence{Now: o.Now, PollInterval: time.Duration(o.Config.PollSeconds) * time.Second}
	c.Agents = &agentupgrade.Service{Store: c.Store, Hub: c.Hub, Presence: seen, Carried: &agentupgrade.Directory{Path: o.Config.AgentDirectory},
		Config: o.Config.AgentUpgrade, Version: version.Version, Now: o.Now, Log: o.Log}
	c.Permits = &permit.Service{Store: c.Store, Now: o.Now, Log: o.Log, Changed: c.planAgain, Hub: c.Hub}
	c.Enrollment = c.enrollment()
	c.Lifecycle = lifecycle.New(lifecycle.Options{Store: c.Store, Hub: c.Hub, Blobs: c.Blobs, Enrollment: c.Enrollment, Permits: c.Permits, Presence: seen,
		Wanted: c.Agents.Wanted, Source: o.Source, Now: o.Now, Log: o.Log, OwnNames: ownNames(o.Config),
		FailureGrace: time.Duration(o.Config.FailureGraceSeconds) * time.Second})
	c.UI = ui.New(ui.Options{Instances: c.Lifecycle.Instances, Operations: c.Lifecycle.Operations, Nodes: c.Lifecycle.Nodes, Agents: c.Agents, Volumes: c.Permits, Events: c.Events,
		Replicas: replicasOf(o), Tokens: c.Tokens, Changes: c.Hub, MAC: c.Store.MAC, Version: version.Version, Now: o.Now, Log: o.Log})
	return nil
}

// enrollment is the identities of nodes. The life cycle is made with it and follows what it
// changes, so it finds the life cycle in c.
func (c *Core) enrollment() *enrollment.Service {
	var attestor enrollment.Attestor
	if c.o.Attestor != nil {
		attestor = c.o.Attestor(c.Store)
	}
	var discover func(ctx context.Context, instanceID, serverID string) error
	if c.o.Discovers {
		discover = func(ctx context.Context, instanceID, serverID string) error {
			return c.Lifecycle.Discovery.Discover(ctx, instanceID, serverID)
		}
	}
	return &enrollment.Service{Store: c.Store, PKI: c.Authority, Now: c.o.Now, Log: c.o.Log, Attestor: attestor, Discover: discover,
		Changed: func(nodeID string) { c.Lifecycle.Nodes.NodeChanged(nodeID) }, Gone: c.Permits.NodeGone, Metrics: c.o.Metrics}
}

// alone is the replicas of a controller with a store of its own.
type alone struct{}

func (alone) List(context.Context) ([]wire.Replica, error) {
	return nil, nil
}

func replicasOf(o Options) httpapi.Replicas {
	if o.Replicas == nil {
		return alone{}
	}
	return o.Replicas
}

// API is what the API serves. spreadSeconds is over how long agents shall come back that lost the
// controller.
func (c *Core) API(spreadSeconds func() int) httpapi.Options {
	o := c.o
	return httpapi.Options{
		Instances: c.Lifecycle.Instances, Operations: c.Lifecycle.Operations, Nodes: c.Lifecycle.Nodes, Agents: c.Agents, Volumes: c.Permits, Enrollment: c.Enrollment,
		Tokens: c.Tokens, Files: c.Files, Backups: c.Backups, Replicas: replicasOf(o), Events: c.Events, UI: c.UI, Changes: c.Hub, Metrics: o.Metrics,
		Trust:          wire.Trust{Urls: o.Config.AdvertiseURLs, RootCertificate: c.Authority.RootPEM(), Pin: c.Authority.Pin()},
		ControllerURLs: o.Config.ControllerURLs, PollSeconds: o.Config.PollSeconds, ConvergeSeconds: o.Config.ConvergeSeconds,
		Settings: o.Config, SpreadSeconds: spreadSeconds, Serviceable: c.Serviceable, Now: o.Now, Log: o.Log,
	}
}

// keptApart is what no backup has and every restore needs.
func keptApart(c config.Config, shared bool) []archive.Excluded {
	key := c.SealKeyFile
	if c.KeyCredential != "" {
		key = "the systemd credential " + config.CredentialName
	}
	list := []archive.Excluded{{Name: "the seal key", Path: key}}
	if !shared { // else the CA is among the records
		list = append(list, archive.Excluded{Name: "the CA with its private keys", Path: filepath.Join(c.DataDirectory, "pki") + "/"})
	}
	return list
}

// planAgain follows an operator's word on a volume, or the end of that, which can
// change the documents of the instance's nodes.
func (c *Core) planAgain(instanceID string) {
	if err := c.Lifecycle.Reconciler.Reconcile(context.Background(), instanceID); err != nil {
		c.o.Log.Error("an instance cannot be planned again after a change of a volume", "instance", instanceID, "error", err)
	}
}

// Ready reports whether the store answers.
func (c *Core) Ready(context.Context) error {
	return c.Store.View(func(tx *store.Tx) error {
		_, _, err := tx.Instances().Get("")
		return err
	})
}

// leastFree is how much of the disk has to be free for the controller to be ready: an upload or
// a growing database soon needs it.
const leastFree = 4 << 20

// Serviceable reports whether the controller can do all of its work: as Ready, and there is
// space for writes. The error is a problem if the operator has to free space.
func (c *Core) Serviceable(ctx context.Context) error {
	if err := c.Ready(ctx); err != nil {
		return err
	}
	free, err := store.Free(c.o.Config.DataDirectory)
	if err != nil {
		return err
	}
	if free < leastFree {
		return wire.NewProblem(wire.ProblemUnavailable, fmt.Sprintf(
			"the controller's disk is full (%d bytes are free, expected at least %d), so writes are refused: free space under its data directory; the controller needs no restart", free, leastFree))
	}
	return nil
}
