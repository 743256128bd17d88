package replicas

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/nodehitch/nodehitch/e2e/kube/etcdtest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/process"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// The users of etcd, each named as its client certificate. Only the first one's role is for
// the prefix; the second one's is for another.
const (
	ours, stranger, administrator = "nodehitch", "stranger", "root"
	password                      = "correct horse"
)

// authority signs certificates of etcd's members and clients.
type authority struct {
	t           *testing.T
	dir         string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	issued      int64
}

func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: dir, key: testca.NewKey()}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err == nil {
		a.certificate, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.write(name+".pem", "CERTIFICATE", der)
	return a
}

// write writes a file as a whole, PEM of a kind, or DER for "". What reads it has the old one
// or the new one.
func (a *authority) write(name, kind string, der []byte) (path string) {
	a.t.Helper()
	path = filepath.Join(a.dir, name)
	text := der
	if kind != "" {
		text = pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	if err := errors.Join(os.WriteFile(path+".new", text, 0o600), os.Rename(path+".new", path)); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// pair is a certificate in files, its key, and its serial number.
type pair struct {
	cert, key string
	serial    *big.Int
}

// issue makes a certificate, for a member or for a user.
func (a *authority) issue(name string, usage ...x509.ExtKeyUsage) pair {
	a.t.Helper()
	a.issued++
	serial, key := big.NewInt(1+a.issued), testca.NewKey()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usage,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, a.certificate, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	file := a.certificate.Subject.CommonName + "-" + name
	return pair{a.write(file+".pem", "CERTIFICATE", der), a.write(file+".key", "PRIVATE KEY", private), serial}
}

func (a *authority) client(user string) pair { return a.issue(user, x509.ExtKeyUsageClientAuth) }

// revoke replaces the list of the certificates that are revoked.
func (a *authority) revoke(serials ...*big.Int) (path string) {
	a.t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(time.Now().UnixNano()), NextUpdate: time.Now().Add(24 * time.Hour)}
	for _, serial := range serials {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: serial, RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.certificate, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write("revoked.crl", "", der)
}

// locked is an etcd that admits only its users.
type locked struct {
	*etcdtest.Cluster
	t         *testing.T
	dir       string
	authority *authority
	// admin is its administrator.
	admin *clientv3.Client
}

// openLocked starts an etcd with TLS whose users are known by their certificates, or by their
// passwords.
func openLocked(t *testing.T, byCertificate bool) *locked {
	t.Helper()
	l := &locked{t: t, dir: t.TempDir()}
	l.authority = newAuthority(t, l.dir, "ca")
	member, root := l.authority.issue("member", x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth), l.authority.client(administrator)
	certificate, err := tls.LoadX509KeyPair(root.cert, root.key)
	l.must(err)
	roots := x509.NewCertPool()
	roots.AddCert(l.authority.certificate)
	config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	flags := []string{"--cert-file=" + member.cert, "--key-file=" + member.key, "--unsafe-no-fsync", "--log-level=error"}
	if byCertificate {
		flags = append(flags, "--client-cert-auth", "--trusted-ca-file="+filepath.Join(l.dir, "ca.pem"), "--client-crl-file="+l.authority.revoke())
	}
	l.Cluster = etcdtest.OpenAt(t, l.dir, []etcdtest.Place{{TLS: config}}, flags...)
	o := clientv3.Config{Endpoints: l.Endpoints(), Logger: zap.NewNop(), TLS: config, DialTimeout: 2 * time.Second}
	open, err := clientv3.New(o)
	l.must(err)
	t.Cleanup(func() { _ = open.Close() })
	for user, at := range map[string]string{ours: prefix + "/", stranger: "/others/"} {
		_, err := open.RoleAdd(t.Context(), user)
		l.must(err)
		_, err = open.RoleGrantPermission(t.Context(), user, at, clientv3.GetPrefixRangeEnd(at), clientv3.PermissionType(clientv3.PermReadWrite))
		l.must(err)
	}
	_, err = open.RoleAdd(t.Context(), administrator)
	l.must(err)
	for _, user := range []string{ours, stranger, administrator} {
		_, err := open.UserAdd(t.Context(), user, password)
		l.must(err)
		_, err = open.UserGrantRole(t.Context(), user, user)
		l.must(err)
	}
	_, err = open.AuthEnable(t.Context())
	l.must(err)
	if !byCertificate {
		o.Username, o.Password = administrator, password
	}
	l.admin, err = clientv3.New(o)
	l.must(err)
	t.Cleanup(func() { _ = l.admin.Close() })
	return l
}

func (l *locked) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// password writes a file with one.
func (l *locked) password(text string) string {
	l.t.Helper()
	path := filepath.Join(l.dir, "password-"+strings.ReplaceAll(text, " ", "-"))
	l.must(os.WriteFile(path, []byte(text+"\n"), 0o600))
	return path
}

// settings of a controller, with what admits it.
func (l *locked) settings(endpoint, admission string) map[string]string {
	return map[string]string{"store": fmt.Sprintf("{etcd: {endpoints: [%s], prefix: %s, %s}}", endpoint, prefix, admission), "replica": "{id: only}"}
}

// term is the number of the leader's term.
func (l *locked) term() int64 {
	l.t.Helper()
	answer, err := l.admin.Get(l.t.Context(), prefix+"/writer")
	l.must(err)
	if len(answer.Kvs) == 0 {
		return 0
	}
	return answer.Kvs[0].CreateRevision
}

// writes wants the controller to change the n-th instance, in the term that it has been in.
func (l *locked) writes(c *loopback.Controller, n int, term int64, when string) {
	l.t.Helper()
	if err := client.Done(c.API.PutInstance(l.t.Context(), id(0, n), nil, spec(l.t, loopback.ClusterParams(""), nil))); err != nil {
		l.t.Fatalf("%s: %v", when, err)
	}
	if now := l.term(); now != term {
		l.t.Fatalf("%s: the term is %d, it was %d", when, now, term)
	}
}

// TestAdmission runs a controller on an etcd with TLS where it has a user of its own, whose
// role is for the prefix alone.
func TestAdmission(t *testing.T) {
	t.Run("by certificate", func(t *testing.T) {
		results.Begin(t, "replicas", "admitted by certificate", "a client certificate that is replaced on disk is used from the next connection on")
		l := openLocked(t, true)
		proxy := etcdtest.NewProxy(t, l.Members[0].URL)
		at := l.authority.client(ours)
		c := loopback.Open(t, loopback.Options{Settings: l.settings(proxy.URL, fmt.Sprintf("ca: %s/ca.pem, cert: %s, key: %s", l.dir, at.cert, at.key))})
		term := l.term()
		l.writes(c, 0, term, "at first")
		l.authority.client(ours) // in the same files
		l.authority.revoke(at.serial)
		proxy.Break(t)
		l.writes(c, 1, term, "with a new certificate")
		_, err := l.admin.UserAdd(t.Context(), "another", password)
		l.must(err)
		l.writes(c, 2, term, "after etcd's users have changed")
	})
	t.Run("by password", func(t *testing.T) {
		results.Begin(t, "replicas", "admitted by password", "a controller gets a new token of etcd when the old one is void, in the same term")
		l := openLocked(t, false)
		c := loopback.Open(t, loopback.Options{Settings: l.settings(l.Members[0].URL,
			fmt.Sprintf("ca: %s/ca.pem, username: %s, passwordFile: %s", l.dir, ours, l.password(password)))})
		term := l.term()
		l.writes(c, 0, term, "at first")
		_, err := l.admin.UserChangePassword(t.Context(), ours, password) // voids the tokens
		l.must(err)
		l.writes(c, 1, term, "with a new token")
		_, err = l.admin.UserAdd(t.Context(), "another", password)
		l.must(err)
		l.writes(c, 2, term, "after etcd's users have changed")
	})
}

// TestNotAdmitted wants a controller to say by name why etcd does not admit it.
func TestNotAdmitted(t *testing.T) {
	results.Begin(t, "replicas", "not admitted", "a controller that etcd does not admit says by name what is wrong")
	certificates, passwords := openLocked(t, true), openLocked(t, false)
	other := newAuthority(t, t.TempDir(), "other-ca")
	foreign, unknown := other.client(ours), certificates.authority.client("nobody")
	notOurs := certificates.authority.client(stranger)
	usual := fmt.Sprintf("ca: %s/ca.pem", certificates.dir)
	byPassword := fmt.Sprintf("ca: %s/ca.pem, username: %%s, passwordFile: %%s", passwords.dir)
	for _, c := range []struct {
		name, admission string
		etcd            *locked
		// ends: it does not wait for a change.
		ends bool
		says []string
	}{
		{"another password", fmt.Sprintf(byPassword, ours, passwords.password("wrong")), passwords, true,
			[]string{"etcd refuses this controller", `no user "nodehitch" with the password in store.etcd.passwordFile`}},
		{"an unknown user", fmt.Sprintf(byPassword, "nobody", passwords.password(password)), passwords, true,
			[]string{"etcd refuses this controller", `no user "nobody"`}},
		{"a role for another prefix", fmt.Sprintf(byPassword, stranger, passwords.password(password)), passwords, true,
			[]string{"/nodehitch/replicas/", "permission denied", `create the user "stranger" there, with a role that may read and write all keys that begin with /nodehitch/`}},
		{"no user", fmt.Sprintf("ca: %s/ca.pem", passwords.dir), passwords, true,
			[]string{"etcd refuses this controller", "user name is empty", "set store.etcd.username and store.etcd.passwordFile"}},
		{"another authority", fmt.Sprintf("ca: %s/other-ca.pem, username: %s, passwordFile: %s", other.dir, ours, passwords.password(password)), passwords, false,
			[]string{"connecting to " + passwords.Members[0].URL, "certificate signed by unknown authority"}},
		{"no client certificate", usual, certificates, false,
			[]string{"connecting to " + certificates.Members[0].URL, "tls: certificate required"}},
		{"a client certificate of another authority", usual + fmt.Sprintf(", cert: %s, key: %s", foreign.cert, foreign.key), certificates, false,
			[]string{"connecting to " + certificates.Members[0].URL, "remote error: tls: "}},
		{"a client certificate of an unknown user", usual + fmt.Sprintf(", cert: %s, key: %s", unknown.cert, unknown.key), certificates, true,
			[]string{"permission denied", `create the user "nobody"`}},
		{"a client certificate of a role for another prefix", usual + fmt.Sprintf(", cert: %s, key: %s", notOurs.cert, notOurs.key), certificates, true,
			[]string{"permission denied", `create the user "stranger"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			notAdmitted(t, c.etcd.settings(c.etcd.Members[0].URL, c.admission), c.ends, c.says)
		})
	}
}

// notAdmitted starts a controller and wants it to say all of these, and to end or to wait.
func notAdmitted(t *testing.T, settings map[string]string, ends bool, says []string) {
	t.Helper()
	dir := t.TempDir()
	settings["dataDirectory"], settings["socket"], settings["agentDirectory"] = filepath.Join(dir, "data"), filepath.Join(dir, "socket"), dir
	settings["listen"], settings["metricsListen"] = loopback.FreeAddress(t), `""`
	settings["names"], settings["advertiseUrls"], settings["attestation"] = "[127.0.0.1]", "[https://"+settings["listen"]+"]", "{mode: token}"
	var text bytes.Buffer
	for name, value := range settings {
		fmt.Fprintf(&text, "%s: %s\n", name, value)
	}
	config, logged := filepath.Join(dir, "controller.yaml"), filepath.Join(dir, "log")
	log, err := os.Create(logged)
	if err := errors.Join(err, os.WriteFile(config, text.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(loopback.Bin(t), "nodehitch-controller"), "serve", "--config", config)
	cmd.Stdout, cmd.Stderr = log, log
	running, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = running.Process.Kill()
		<-running.Ended()
		said, _ := os.ReadFile(logged)
		if t.Failed() {
			t.Logf("it said:\n%s", said)
		}
		if strings.Contains(string(said), password) {
			t.Error("the password is in its log")
		}
	}()
	if ends {
		<-running.Ended()
	}
	loopback.Until(t, fmt.Sprintf("it says %q", says), func() bool {
		said, _ := os.ReadFile(logged)
		for _, each := range says {
			if !strings.Contains(string(said), each) {
				return false
			}
		}
		return true
	})
	select {
	case <-running.Ended():
		if !ends {
			t.Error("it has ended")
		}
	default:
	}
}
