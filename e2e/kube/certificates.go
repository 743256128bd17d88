package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"time"
)

// Admin and Masters are the user and the group that may do everything.
const (
	Admin   = "kubernetes-admin"
	Masters = "system:masters"
)

// The files of a cluster.
const (
	authorityFile     = "ca.crt"
	authorityKey      = "ca.key" // only if machines may join
	auditPolicyFile   = "audit-policy.yaml"
	serverCertificate = "apiserver.crt"
	serverKey         = "apiserver.key"
	serviceAccountKey = "sa.key"
	adminFile         = "admin.conf"
)

// validity is longer than any test runs.
const validity = 24 * time.Hour

// authority signs the certificates of a cluster. Unless machines may join, its key is in
// memory alone.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// writeFiles makes the authority and what the programs read.
func (c *Cluster) writeFiles() (err error) {
	if c.authority, err = newAuthority(); err != nil {
		return err
	}
	server, err := c.authority.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, append([]string{c.o.Address.Addr().String(), "kubernetes"}, c.o.Names...)...)
	if err != nil {
		return err
	}
	certificate, key, err := pemOf(server)
	if err != nil {
		return err
	}
	accounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	_, accountsKey, err := pemOf(tls.Certificate{PrivateKey: accounts})
	if err != nil {
		return err
	}
	admin, err := c.Kubeconfig(Admin, Masters)
	files := map[string][]byte{
		authorityFile: c.authority.pem(), serverCertificate: certificate, serverKey: key,
		serviceAccountKey: accountsKey, adminFile: admin,
	}
	if c.o.Members {
		_, signer, failed := pemOf(tls.Certificate{PrivateKey: c.authority.key})
		err = errors.Join(err, failed)
		files[authorityKey], files[auditPolicyFile] = signer, []byte(auditPolicy)
	}
	for name, content := range files {
		err = errors.Join(err, os.WriteFile(c.file(name), content, 0o600))
	}
	return err
}

func newAuthority() (*authority, error) {
	a := &authority{}
	made, err := a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "kubernetes"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	if err != nil {
		return nil, err
	}
	a.certificate, a.key = made.Leaf, made.PrivateKey.(*ecdsa.PrivateKey)
	return a, nil
}

// client is the identity of a user, as Kubernetes reads it from a certificate. A zero
// notAfter is that of the others.
func (a *authority) client(notAfter time.Time, user string, groups ...string) (tls.Certificate, error) {
	return a.issue(&x509.Certificate{
		NotAfter:    notAfter,
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// issue completes a template for names, DNS ones and addresses, and signs it; with
// its own key, if the authority has none yet.
func (a *authority) issue(template *x509.Certificate, names ...string) (made tls.Certificate, err error) {
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return made, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return made, err
	}
	template.NotBefore = time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(validity)
	}
	template.KeyUsage |= x509.KeyUsageDigitalSignature
	parent, signer := a.certificate, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return made, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// CA is the certificate of the cluster's authority.
func (c *Cluster) CA() *x509.Certificate { return c.authority.certificate }

// EtcdFiles are what kubeadm leaves below /etc/kubernetes/pki/etcd on a master of these
// addresses, by their names, for an etcd of the master's own.
func (c *Cluster) EtcdFiles(addresses ...string) (map[string][]byte, error) {
	files := map[string][]byte{"ca.crt": c.authority.pem()}
	for name, usage := range map[string][]x509.ExtKeyUsage{
		"server":             {x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		"healthcheck-client": {x509.ExtKeyUsageClientAuth},
	} {
		made, err := c.authority.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "etcd-" + name}, ExtKeyUsage: usage}, addresses...)
		if err != nil {
			return nil, err
		}
		if files[name+".crt"], files[name+".key"], err = pemOf(made); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// pemOf writes a certificate, if there is one, and its key: not as PKCS #8, in
// which the API server takes no EC key for service accounts.
func pemOf(pair tls.Certificate) (certificate, key []byte, err error) {
	for _, der := range pair.Certificate {
		certificate = append(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	der, err := x509.MarshalECPrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), err
}
