package kube_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/etcd"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/process"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/client/testca"
	"github.com/nodehitch/nodehitch/shared/durable"
)

// controlPlane is the etcd of three masters, master-0 to master-2, with certificates as
// kubeadm makes them, on a machine that has kubeadm's files.
type controlPlane struct {
	t       *testing.T
	m       *hosttest.Machine
	clients []string // URLs
	running []*process.Process
}

func newControlPlane(t *testing.T) *controlPlane {
	binaries, err := kube.Find("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = binaries.Close() })
	p, dir := &controlPlane{t: t, m: hosttest.New()}, t.TempDir()
	authority := testca.Root(t, "etcd-ca")
	issue := func(name string, usages ...x509.ExtKeyUsage) (certificate, key string) {
		return files(t, authority.Issue(t, &x509.Certificate{
			Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: usages, DNSNames: []string{"localhost"},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		}))
	}
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := file("ca.crt", string(authority.PEM()))
	certificate, key := issue("etcd", x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
	server, serverKey := file("server.crt", certificate), file("server.key", key)
	certificate, key = issue("kube-etcd-healthcheck-client", x509.ExtKeyUsageClientAuth)
	for name, content := range map[string]string{"ca.crt": string(authority.PEM()), "healthcheck-client.crt": certificate, "healthcheck-client.key": key} {
		p.m.Files["/etc/kubernetes/pki/etcd/"+name] = hosttest.FileState{Content: content, Mode: 0o600}
	}
	var peers, initial []string
	for i := range 3 {
		p.clients = append(p.clients, "https://"+loopback.FreeAddress(t))
		peers = append(peers, "http://"+loopback.FreeAddress(t))
		initial = append(initial, fmt.Sprintf("master-%d=%s", i, peers[i]))
	}
	for i := range 3 {
		name := fmt.Sprintf("master-%d", i)
		cmd := exec.Command(filepath.Join(binaries.Dir, "etcd"), "--name="+name, "--data-dir="+filepath.Join(dir, name), "--unsafe-no-fsync", "--log-level=warn", //nolint:noctx // the test ends it
			"--listen-client-urls="+p.clients[i], "--advertise-client-urls="+p.clients[i], "--listen-peer-urls="+peers[i], "--initial-advertise-peer-urls="+peers[i],
			"--initial-cluster="+strings.Join(initial, ","), "--client-cert-auth", "--trusted-ca-file="+ca, "--cert-file="+server, "--key-file="+serverKey)
		running, err := process.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		p.running = append(p.running, running)
		t.Cleanup(func() { p.kill(i) })
	}
	loopback.Until(t, "the three members of etcd are healthy", func() bool { return p.healthy() == 3 })
	return p
}

// files are a certificate and its key, PEM.
func files(t *testing.T, pair tls.Certificate) (certificate, key string) {
	der, err := x509.MarshalECPrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	return string(testca.Encode(pair.Certificate[0])), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

func (p *controlPlane) kill(i int) {
	_ = p.running[i].Process.Kill()
	<-p.running[i].Ended()
}

// open is the etcd of the first master.
func (p *controlPlane) open() *etcd.Client {
	p.t.Helper()
	c, err := (&etcd.Access{Host: p.m.Host(), Endpoint: p.clients[0]}).Open()
	if err != nil || c == nil {
		p.t.Fatalf("%v, %v", c, err)
	}
	return c
}

// healthy is how many members say that they are.
func (p *controlPlane) healthy() (n int) {
	c := p.open()
	members, _ := c.Members(p.t.Context())
	for _, m := range members {
		if c.Healthy(p.t.Context(), m) == nil {
			n++
		}
	}
	return n
}

// names of the members.
func (p *controlPlane) names() string {
	p.t.Helper()
	members, err := p.open().Members(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	var names []string
	for _, m := range members {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// member is the one with a name. A leader that was killed has to be replaced first.
func (p *controlPlane) member(name string) (member etcd.Member) {
	p.t.Helper()
	loopback.Until(p.t, "etcd has a leader and the member "+name, func() bool {
		members, err := p.open().Members(p.t.Context())
		i := slices.IndexFunc(members, func(m etcd.Member) bool { return m.Name == name })
		var waiting *converge.Waiting
		if err != nil && !errors.As(err, &waiting) {
			p.t.Fatal(err)
		}
		if err != nil || i < 0 {
			return false
		}
		member = members[i]
		return true
	})
	return member
}

// The agent asks etcd without etcd's client: what the gateway answers is etcd's to say.
func TestEtcdsMembersAreListedAndRemoved(t *testing.T) {
	results.Begin(t, suite, "etcd-members",
		"the agent lists etcd's members and removes a dead one; a healthy one that the quorum needs is refused; without a quorum none is removed")
	kubetest.Require(t)
	p := newControlPlane(t)
	if names := p.names(); names != "master-0 master-1 master-2" {
		t.Fatalf("the members are %q", names)
	}
	p.kill(2)
	dead, needed := p.member("master-2"), p.member("master-1")
	if err := p.open().Healthy(t.Context(), dead); err == nil {
		t.Error("a dead member is healthy")
	}
	loopback.Until(t, "etcd refuses to remove a member that the quorum needs", func() bool {
		return errors.Is(p.open().Remove(t.Context(), needed.ID), etcd.ErrQuorum)
	})
	for range 2 { // the second time it is gone
		if err := p.open().Remove(t.Context(), dead.ID); err != nil {
			t.Fatal(err)
		}
		if names := p.names(); names != "master-0 master-1" {
			t.Fatalf("the members are %q", names)
		}
	}
	p.kill(1)
	if err := p.open().Remove(t.Context(), needed.ID); err == nil {
		t.Error("a member was removed without a quorum")
	}
}

// A snapshot is what `etcdutl snapshot restore` takes: a database of bbolt, and its SHA-256.
func TestASnapshotOfEtcdIsWhole(t *testing.T) {
	results.Begin(t, suite, "etcd-snapshot", "the agent's snapshot is etcd's database, whole, with all that was written before, and the SHA-256 by which a restore checks it")
	kubetest.Require(t)
	p := newControlPlane(t)
	value := strings.Repeat("what was written ", 8<<10)
	p.put("/registry/a", value)
	s, err := p.open().Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	path := filepath.Join(t.TempDir(), "etcd.db")
	if err := durable.WriteFrom(path, s, 0o600); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	end := len(content) - sha256.Size
	if sum := sha256.Sum256(content[:end]); !bytes.Equal(content[end:], sum[:]) || end%512 != 0 || int64(len(content)) != s.Size {
		t.Errorf("%d bytes, %d were announced, and the end is not the SHA-256 of the rest", len(content), s.Size)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	found := false
	err = db.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			t.Error(err)
		}
		return tx.Bucket([]byte("key")).ForEach(func(_, stored []byte) error {
			found = found || bytes.Contains(stored, []byte(value))
			return nil
		})
	})
	if err != nil || !found {
		t.Errorf("what was written is there: %v, %v", found, err)
	}
	p.kill(0)
	if s, err := p.open().Snapshot(t.Context()); err == nil || !strings.Contains(err.Error(), "etcd does not answer") {
		t.Errorf("an etcd that is gone gives %v, %v", s, err)
	}
}

// put writes a key as an API server would.
func (p *controlPlane) put(key, value string) {
	p.t.Helper()
	file := func(name string) []byte { return []byte(p.m.Files["/etc/kubernetes/pki/etcd/"+name].Content) }
	pair, err := tls.X509KeyPair(file("healthcheck-client.crt"), file("healthcheck-client.key"))
	if err != nil {
		p.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(file("ca.crt"))
	c, err := clientv3.New(clientv3.Config{Endpoints: p.clients, DialTimeout: 10 * time.Second, TLS: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots}})
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Put(p.t.Context(), key, value); err != nil {
		p.t.Fatal(err)
	}
}

func TestEtcdIsAskedWithItsOwnCertificatesAlone(t *testing.T) {
	results.Begin(t, suite, "etcd-certificates", "an etcd that another authority has signed is not asked; a client that it does not know is refused")
	kubetest.Require(t)
	p := newControlPlane(t)
	own := p.m.Files["/etc/kubernetes/pki/etcd/ca.crt"]
	p.m.Files["/etc/kubernetes/pki/etcd/ca.crt"] = hosttest.FileState{Content: string(testca.Root(t, "another").PEM())}
	if _, err := p.open().Members(t.Context()); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("an etcd of another authority: %v", err)
	}
	p.m.Files["/etc/kubernetes/pki/etcd/ca.crt"] = own
	certificate, key := files(t, testca.Root(t, "another").Issue(t, &x509.Certificate{NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}))
	p.m.Files["/etc/kubernetes/pki/etcd/healthcheck-client.crt"] = hosttest.FileState{Content: certificate}
	p.m.Files["/etc/kubernetes/pki/etcd/healthcheck-client.key"] = hosttest.FileState{Content: key}
	if _, err := p.open().Members(t.Context()); err == nil {
		t.Error("etcd answers a client that it does not know")
	}
}
