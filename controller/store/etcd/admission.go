package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nodehitch/nodehitch/shared/pemtext"
)

// Files are what etcd admits a controller by, each "" if it is not used.
type Files struct {
	// CA has the roots that certificates of etcd's members are under, PEM; "" for the system's.
	CA string
	// Cert and Key are the client's certificate and its private key, PEM.
	Cert, Key string
	// Password is that of the user.
	Password string
}

// TLS reads the files of certificates. A new client certificate is used from the next
// connection on; new roots need a restart.
func (f Files) TLS() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		text, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("reading the root certificates of etcd: %w", err)
		}
		if text, err = pemtext.Normal(text); err != nil {
			return nil, fmt.Errorf("the root certificates of etcd: %s %w", f.CA, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("the root certificates of etcd, %s: found no certificate; expected at least one, PEM", f.CA)
		}
	}
	if f.Cert == "" {
		return c, nil
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return f.certificate() }
	_, err := f.certificate()
	return c, err
}

func (f Files) certificate() (*tls.Certificate, error) {
	if err := closedToOthers(f.Key); err != nil {
		return nil, fmt.Errorf("reading the private key for etcd: %w", err)
	}
	pair, err := pemtext.LoadKeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the client certificate for etcd, %s, with its key, %s: %w", f.Cert, f.Key, err)
	}
	return &pair, nil
}

// ReadPassword reads the password, "" if there is none. A newline at its end is not part of it.
func (f Files) ReadPassword() (string, error) {
	if f.Password == "" {
		return "", nil
	}
	text, err := os.ReadFile(f.Password)
	password := strings.TrimRight(string(text), "\r\n")
	if err == nil {
		err = closedToOthers(f.Password)
	}
	if err == nil && password == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return "", fmt.Errorf("reading the password for etcd, %s: %w", f.Password, err)
	}
	return password, nil
}

// closedToOthers refuses a file that others than its user and its group can read.
func closedToOthers(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		return fmt.Errorf("%s has mode %#o, so others can read it: chmod 0600 it", path, mode)
	}
	return nil
}
