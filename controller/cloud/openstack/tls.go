package openstack

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/nodehitch/nodehitch/shared/pemtext"
)

// pool is the system's roots and these PEM certificates, nil if there are none in
// the text. A certificate that Go does not support is left out, as from the system's own:
// the bundles of distributions have some.
func pool(certificates []byte) *x509.CertPool {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // a machine without any
	}
	if !roots.AppendCertsFromPEM(certificates) {
		return nil
	}
	return roots
}

// connections is a pool of connections that are secured as the credential says.
func connections(c credential) (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.Unverified}
	if c.CA != "" {
		certificates, err := pemtext.Normal([]byte(c.CA))
		if err != nil {
			return nil, fmt.Errorf("cacert of the cloud %w", err)
		}
		if config.RootCAs = pool(certificates); config.RootCAs == nil {
			return nil, errors.New("cacert of the cloud holds no certificate; expected PEM")
		}
	}
	if c.ClientCertificate != "" {
		pair, err := pemtext.KeyPair([]byte(c.ClientCertificate), []byte(c.ClientKey))
		if err != nil {
			return nil, errors.New("cert and key of the cloud are no certificate and its private key; expected PEM")
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true,
		MaxIdleConns: 16, MaxIdleConnsPerHost: 4, IdleConnTimeout: 90 * time.Second,
	}, nil
}

// host is the host and port of a URL.
func host(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "?"
	}
	return u.Host
}
