package backup

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/access"
	"github.com/nodehitch/nodehitch/controller/enrolment"
	"github.com/nodehitch/nodehitch/controller/files"
	"github.com/nodehitch/nodehitch/controller/permit"
	"github.com/nodehitch/nodehitch/controller/pki"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

const instance = "0b1a5c2e-7c53-4d86-9f0a-8f6f5b0c1d2e"

// world is what of a controller trusts and permits, over a data directory.
type world struct {
	t   testing.TB
	dir string
	now time.Time

	store     *store.Store
	blobs     *files.Blobs
	authority *pki.Authority
	enrolment *enrolment.Service
	permits   *permit.Service
	tokens    *access.Service
	backups   *Service
	remote    netip.Addr
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, dir: filepath.Join(t.TempDir(), "data"), now: time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC), remote: netip.MustParseAddr("10.0.0.1")}
	w.open()
	t.Cleanup(func() { _ = w.store.Close() })
	return w
}

func (w *world) clock() time.Time { return w.now }

func (w *world) key() store.KeySource {
	return store.KeySource{File: filepath.Join(w.dir, "seal.key"), Create: true}
}

// open starts on what is in the data directory.
func (w *world) open() {
	w.t.Helper()
	log := slog.New(slog.DiscardHandler)
	var err error
	w.store, err = store.Open(store.Options{Path: filepath.Join(w.dir, StoreFile), Key: w.key(), Now: w.clock})
	w.must(err)
	w.blobs, err = files.OpenBlobs(w.dir, 1<<20, w.clock)
	w.must(err)
	if w.authority == nil {
		w.authority, err = pki.Load(pki.Options{Dir: filepath.Join(w.dir, "pki"), Names: []string{"127.0.0.1"}, Now: w.clock, Log: log})
		w.must(err)
	}
	w.permits = &permit.Service{Store: w.store, Now: w.clock, Log: log}
	w.enrolment = &enrolment.Service{Store: w.store, PKI: w.authority, Now: w.clock, Log: log, Gone: w.permits.NodeGone}
	w.tokens = &access.Service{Store: w.store, Now: w.clock, Log: log}
	w.backups = &Service{Store: w.store, Blobs: w.blobs, Directory: w.dir, Version: "test", Now: w.clock, Log: log}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// expect makes the instance with its servers, each with a volume of the same id.
func (w *world) expect(servers ...string) {
	w.t.Helper()
	w.must(w.store.Update(func(tx *store.Tx) error {
		epoch := w.store.Epoch()
		i := &store.Instance{ID: instance, Epoch: epoch, NodeIDs: servers, VolumeIDs: servers}
		err := w.enrolment.NewJoinToken(tx, i)
		for _, id := range servers {
			err = errors.Join(err, tx.Nodes().Put(id, store.Node{ID: id, InstanceID: instance, Expected: true, Epoch: epoch}),
				tx.Volumes().Put(id, store.Volume{ID: id, InstanceID: instance, NodeID: id, AttachedTo: []string{id}, Epoch: epoch,
					FilesystemUUID: api.FilesystemUUID(id), Permit: store.Permit{State: api.PermitNone}}))
		}
		return err
	}))
}

// confirm is what an operator's confirmation of the instance does to its nodes.
func (w *world) confirm(servers ...string) {
	w.t.Helper()
	w.must(w.store.Update(func(tx *store.Tx) error {
		for _, id := range servers {
			n, _, err := tx.Nodes().Get(id)
			n.Epoch = w.store.Epoch()
			if err := errors.Join(err, tx.Nodes().Put(id, n)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// take writes a backup to a file.
func (w *world) take() string {
	w.t.Helper()
	c, err := w.backups.Take(context.Background())
	w.must(err)
	var b bytes.Buffer
	w.must(errors.Join(c.Write(context.Background(), &b), c.Close()))
	path := filepath.Join(w.t.TempDir(), "backup.tar")
	w.must(os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

// restore puts the backup in the place of the state, which is lost or replaced.
func (w *world) restore(file string, lost bool) Restored {
	w.t.Helper()
	w.must(w.store.Close())
	if lost {
		w.must(os.Remove(filepath.Join(w.dir, StoreFile)))
	}
	w.now = w.now.Add(time.Minute)
	r := Restore{File: file, DataDirectory: w.dir, Key: w.key(), Replace: !lost, Now: w.clock}
	done, err := r.Run(context.Background())
	w.must(err)
	w.open()
	return done
}

// certificate is one that was issued, with its key.
type certificate struct {
	server string
	key    *ecdsa.PrivateKey
	chain  []*x509.Certificate
}

// enrol redeems the join token, each time from another address.
func (w *world) enrol(server string, key *ecdsa.PrivateKey) (*certificate, error) {
	token, err := w.enrolment.JoinToken(context.Background(), instance)
	w.must(err)
	w.remote = w.remote.Next()
	issued, err := w.enrolment.Enroll(context.Background(), token, api.EnrollRequest{ServerID: server, CertificateRequest: testca.Request(key, nil)}, w.remote)
	if err != nil {
		return nil, err
	}
	return w.certificate(server, key, issued), nil
}

func (w *world) renew(c *certificate) (*certificate, error) {
	_, serial, err := w.enrolment.Authenticate(context.Background(), c.chain, true)
	if err != nil {
		return nil, err
	}
	key := testca.NewKey()
	issued, err := w.enrolment.Renew(context.Background(), c.server, serial, api.CertificateRequest{CertificateRequest: testca.Request(key, nil)})
	if err != nil {
		return nil, err
	}
	return w.certificate(c.server, key, issued), nil
}

func (w *world) certificate(server string, key *ecdsa.PrivateKey, issued api.IssuedCertificate) *certificate {
	chain, err := testca.Chain(issued.Certificate)
	w.must(err)
	return &certificate{server: server, key: key, chain: chain}
}

// calls is whether the certificate is let in.
func (w *world) calls(c *certificate) error {
	_, _, err := w.enrolment.Authenticate(context.Background(), c.chain, false)
	return err
}

func (w *world) format(server string, phase api.FormatPhase, id string) (string, error) {
	p, err := w.permits.Report(context.Background(), server, server, api.FormatReport{Phase: phase, Permit: id, SizeBytes: 1,
		FilesystemUUID: api.FilesystemUUID(server), Proof: &api.BlankProof{BytesRead: 1, Samples: 1}})
	return p.Permit, err
}
