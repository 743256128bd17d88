package backup_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/backup"
	"github.com/nodehitch/nodehitch/controller/core/controllertest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/storetest"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

const instance = "0b1a5c2e-7c53-4d86-9f0a-8f6f5b0c1d2e"

// world is a controller and its data directory.
type world struct {
	*controllertest.Controller
	t      testing.TB
	remote netip.Addr
}

func newWorld(t testing.TB) *world {
	t.Helper()
	storetest.OnlyBbolt(t, "a restore replaces a file here; the tests with a site move the state to an etcd of their own")
	return &world{Controller: controllertest.New(t, controllertest.Options{}), t: t, remote: netip.MustParseAddr("10.0.0.1")}
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
	w.must(w.Store.Update(func(tx *store.Tx) error {
		epoch := w.Store.Epoch()
		i := &store.Instance{ID: instance, Epoch: epoch, NodeIDs: servers, VolumeIDs: servers}
		err := w.Enrollment.NewJoinToken(tx, i)
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
	w.must(w.Store.Update(func(tx *store.Tx) error {
		for _, id := range servers {
			n, _, err := tx.Nodes().Get(id)
			n.Epoch = w.Store.Epoch()
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
	c, err := w.Backups.Take(context.Background())
	w.must(err)
	var b bytes.Buffer
	w.must(errors.Join(c.Write(context.Background(), &b), c.Close()))
	path := filepath.Join(w.t.TempDir(), "backup.tar")
	w.must(os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

// restore puts the backup in the place of the state, which is lost or replaced.
func (w *world) restore(file string, lost bool) backup.Restored {
	w.t.Helper()
	w.must(w.Store.Close())
	if lost {
		w.must(os.Remove(w.StorePath()))
	}
	w.Clock.Advance(time.Minute)
	r := backup.Restore{File: file, DataDirectory: w.Config.DataDirectory, Key: store.KeySource{File: w.Config.SealKeyFile}, Replace: !lost, By: "uid 0 of this machine", Now: w.Clock.Now}
	done, err := r.Run(context.Background())
	w.must(err)
	w.Open()
	return done
}

// certificate is one that was issued, with its key.
type certificate struct {
	server string
	key    *ecdsa.PrivateKey
	chain  []*x509.Certificate
}

// enroll redeems the join token, each time from another address.
func (w *world) enroll(server string, key *ecdsa.PrivateKey) (*certificate, error) {
	token, err := w.Enrollment.JoinToken(context.Background(), instance)
	w.must(err)
	w.remote = w.remote.Next()
	issued, err := w.Enrollment.Enroll(context.Background(), token, api.EnrollRequest{ServerID: server, CertificateRequest: testca.Request(key, nil)}, w.remote)
	if err != nil {
		return nil, err
	}
	return w.certificate(server, key, issued), nil
}

func (w *world) renew(c *certificate) (*certificate, error) {
	_, serial, err := w.Enrollment.Authenticate(context.Background(), c.chain, true)
	if err != nil {
		return nil, err
	}
	key := testca.NewKey()
	issued, err := w.Enrollment.Renew(context.Background(), c.server, serial, api.CertificateRequest{CertificateRequest: testca.Request(key, nil)})
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

// calls is whether the certificate is accepted.
func (w *world) calls(c *certificate) error {
	_, _, err := w.Enrollment.Authenticate(context.Background(), c.chain, false)
	return err
}

func (w *world) format(server string, phase api.FormatPhase, id string) (string, error) {
	p, err := w.Permits.Report(context.Background(), server, server, api.FormatReport{Phase: phase, Permit: id, SizeBytes: 1,
		FilesystemUUID: api.FilesystemUUID(server), BlankCheck: &api.BlankCheck{BytesRead: 1, Samples: 1}})
	return p.Permit, err
}
