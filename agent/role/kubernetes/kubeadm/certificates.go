package kubeadm

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The components of a control plane, by the names of their programs.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
)

const (
	directory  = "/etc/kubernetes/"
	pki        = directory + "pki/"
	clusterKey = pki + "ca.key"
	etcdKey    = pki + "etcd/ca.key"
	proxyKey   = pki + "front-proxy-ca.key"
)

// renewed are the certificates that kubeadm renews, each only if it is there: the file, the key
// of its authority, without which kubeadm leaves it as it is, and the component whose process has
// read it, "" for none.
var renewed = []struct{ path, key, component string }{
	{pki + "etcd/server.crt", etcdKey, Etcd},
	{pki + "etcd/peer.crt", etcdKey, Etcd},
	{pki + "etcd/healthcheck-client.crt", etcdKey, ""},
	{pki + "apiserver.crt", clusterKey, APIServer},
	{pki + "apiserver-kubelet-client.crt", clusterKey, APIServer},
	{pki + "apiserver-etcd-client.crt", etcdKey, APIServer},
	{pki + "front-proxy-client.crt", proxyKey, APIServer},
	{directory + "controller-manager.conf", clusterKey, ControllerManager},
	{directory + "scheduler.conf", clusterKey, Scheduler},
	{directory + "admin.conf", clusterKey, ""},
	{directory + "super-admin.conf", clusterKey, ""},
}

// Certificates are those of this master's control plane.
type Certificates struct {
	// Expire is when the first of them does; the zero time if there is none.
	Expire time.Time
	// Due says that kubeadm is to renew them.
	Due bool
	// Running are the processes of the components. Outdated are those that have read certificates
	// that were renewed since.
	Running, Outdated []host.Process
	// Others are the paths of those that would be due and whose authority has no key here.
	Others []string
}

// Certificates reads them and compares them with the processes. now is the machine's clock.
func (m *Machine) Certificates(now time.Time) (c Certificates, err error) {
	written := map[string]time.Time{}
	var errs []error
	for _, each := range renewed {
		certificate, err := m.certificate(each.path)
		if certificate == nil {
			errs = append(errs, err)
			continue
		}
		if c.Expire.IsZero() || certificate.NotAfter.Before(c.Expire) {
			c.Expire = certificate.NotAfter
		}
		key, err := m.exists(each.key)
		switch {
		case err != nil:
			errs = append(errs, err)
		case due(certificate, now) && key:
			c.Due = true
		case due(certificate, now):
			c.Others = append(c.Others, each.path)
		}
		at, err := m.Host.Files.Modified(each.path)
		if err != nil {
			errs = append(errs, err)
		}
		// What is from the future was written before the clock was set back: a process would be
		// older than that for ever.
		if at.After(written[each.component]) && !at.After(now) {
			written[each.component] = at
		}
	}
	order := []string{Etcd, APIServer, ControllerManager, Scheduler}
	c.Running, err = m.Host.Processes.OfPods(order...)
	slices.SortStableFunc(c.Running, func(a, b host.Process) int {
		return slices.Index(order, a.Program) - slices.Index(order, b.Program)
	})
	for _, p := range c.Running {
		if p.Started.Before(written[p.Program]) {
			c.Outdated = append(c.Outdated, p)
		}
	}
	return c, errors.Join(append(errs, err)...)
}

// due reports whether a certificate is in the last third of its validity. One that is not valid
// yet was renewed while the clock was wrong.
func due(c *x509.Certificate, now time.Time) bool {
	return now.Before(c.NotBefore) || !now.Before(c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore)/3))
}

// certificate is the first one of a file, or that of the user of a kubeconfig; nil if there is none.
func (m *Machine) certificate(path string) (*x509.Certificate, error) {
	content, err := m.Host.Files.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if filepath.Ext(path) == ".conf" {
		var config struct {
			Users []struct {
				User struct {
					Certificate []byte `json:"client-certificate-data"`
				} `json:"user"`
			} `json:"users"`
		}
		err = yaml.Unmarshal(content, &config)
		content = nil
		if len(config.Users) > 0 {
			content = config.Users[0].User.Certificate
		}
		if err == nil && content == nil { // a kubeconfig of others, which kubeadm does not renew
			return nil, nil
		}
	}
	c := parse(content)
	if c == nil { // what cannot be read is not repeated: it may be a key
		return nil, converge.Wait(api.ReasonRenewalFailed, "%s has no certificate that can be read, so kubeadm renews none: put it back from a copy, or remove it and make it anew with `kubeadm init phase`", path)
	}
	return c, nil
}

// parse is the first certificate of a PEM text, nil if there is none, or it was cut off while it
// was written.
func parse(text []byte) *x509.Certificate {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	return c
}

// Renew renews them. It may be repeated: what kubeadm was killed before is still due.
func (m *Machine) Renew(ctx context.Context) error {
	if err := m.Host.Kubeadm.RenewCertificates(ctx); err != nil {
		return explain("renewing the certificates", api.ReasonRenewalFailed, err)
	}
	return m.Host.Kubeadm.Sync()
}

// Turn reports whether this master needs its turn to renew them, or to restart what has read old
// ones.
func (c Certificates) Turn() bool { return c.Due || len(c.Outdated) > 0 }

// Says is what a healthy master says of them, "" for nothing.
func (c Certificates) Says() string {
	var said []string
	until := c.Expire.UTC().Format(time.RFC3339)
	if c.Turn() {
		said = append(said, fmt.Sprintf("; its certificates are renewed when it is this master's turn, and the first of them expires at %s", until))
	}
	if len(c.Others) > 0 {
		said = append(said, fmt.Sprintf("; nodehitch does not renew %s, as the key of the authority is not on this machine: renew them before %s", strings.Join(c.Others, ", "), until))
	}
	return strings.Join(said, "")
}
