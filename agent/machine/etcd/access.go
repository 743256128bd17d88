// Package etcd lists and removes members of the etcd of this master's control plane. It
// speaks to etcd's JSON gateway with kubeadm's certificates, because etcd's own client
// would add its gRPC to the agent.
package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net/http"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/pemtext"
)

// DefaultEndpoint is where the etcd of a master listens that kubeadm has made.
const DefaultEndpoint = "https://127.0.0.1:2379"

// The certificates of kubeadm's etcd, and the client that kubeadm itself uses.
const (
	caFile          = "/etc/kubernetes/pki/etcd/ca.crt"
	certificateFile = "/etc/kubernetes/pki/etcd/healthcheck-client.crt"
	keyFile         = "/etc/kubernetes/pki/etcd/healthcheck-client.key"
)

// requestLimit is how long one request may take.
const requestLimit = 10 * time.Second

// Access is the way to the etcd of this machine.
type Access struct {
	Host *host.Host
	// Endpoint is the URL of etcd; "" = DefaultEndpoint.
	Endpoint string
}

// Client asks one etcd.
type Client struct {
	endpoint string
	http     *http.Client
}

// Open reads the certificates, because they are renewed. It sends nothing. It returns nil
// if the machine has no etcd of kubeadm's: the control plane uses another one, whose
// members are no servers of the VNF.
func (a *Access) Open() (*Client, error) {
	ca, err := a.Host.Files.Read(caFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	certificate, err := a.Host.Files.Read(certificateFile)
	if err != nil {
		return nil, missing(err)
	}
	key, err := a.Host.Files.Read(keyFile)
	if err != nil {
		return nil, missing(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	roots := x509.NewCertPool()
	all, broken := pemtext.Normal(ca)
	if err != nil || broken != nil || !roots.AppendCertsFromPEM(all) { // the error may repeat the key
		return nil, unusable("%s, or %s with its key, cannot be used", caFile, certificateFile)
	}
	c := &Client{endpoint: a.Endpoint, http: &http.Client{Timeout: requestLimit, Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}},
		DisableKeepAlives: true, // it is asked once in a pass, or less
	}}}
	if c.endpoint == "" {
		c.endpoint = DefaultEndpoint
	}
	return c, nil
}

func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return unusable("etcd cannot be asked: %v", err)
	}
	return err
}

func unusable(format string, args ...any) error {
	return converge.Wait(api.ReasonClusterNotInstalled, format, args...)
}
