package trust

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"net"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/agent/config"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// deception leads agent and downloader to an impostor.
type deception struct {
	name, shows string
	// stage starts the impostor and changes the configuration to its address.
	stage func(*attempt, *config.Config) *impostor
	// called says that the victim must have connected to it; otherwise it must not.
	called bool
	// agent and bootstrap are what each says of it, one of several between bars.
	agent, bootstrap string
}

var deceptions = []deception{
	{"wrong pin", "a root that is not the pinned one is not used: no connection is made", wrongPin, false,
		"but the pin is", "but the pin is"},
	{"another root", "another root in place of the controller's, without its pin: no connection is made", anotherRoot, false,
		"but the pin is", "but the pin is"},
	{"http URL", "a URL without TLS is refused: no connection is made in plain text", httpURL, false, "expected https://", "expected https"},
	{"plain HTTP", "a server without TLS gets only the TLS client hello", plainServer, true,
		"does not speak tls", "wrong_version_number|wrong version number|record layer failure"},
	{"foreign chain", "a chain to another root, with the right name, which the system's store trusts", foreignChain, true,
		"unknown authority", "certificate_verify_failed"},
	{"expired certificate", "a server certificate below the pinned root that ended an hour ago", served(func(c *x509.Certificate) {
		c.NotAfter = time.Now().Add(-time.Hour)
	}, nil), true, "expired", "certificate has expired"},
	{"expired intermediate", "a good server certificate below an intermediate of the pinned root that has ended", expiredIntermediate, true,
		"expired", "certificate has expired"},
	{"not valid yet", "a server certificate below the pinned root that is valid from tomorrow", served(func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(24*time.Hour), time.Now().Add(48*time.Hour)
	}, nil), true, "check the clocks of both machines", "not yet valid"},
	{"another name", "a server certificate for another host below the pinned root", served(func(c *x509.Certificate) {
		c.IPAddresses, c.DNSNames = nil, []string{"controller.example"}
	}, nil), true, "is for controller.example, not for", "ip address mismatch"},
	{"a node as controller", "a node's certificate, which is also below the pinned root, is for clients only", served(func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}, nil), true, "incompatible key usage", "unsuitable certificate purpose|unsupported certificate purpose"},
	{"TLS 1.2", "the controller's own certificate, with TLS 1.2", served(func(*x509.Certificate) {}, func(c *tls.Config) {
		c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	}), true, "protocol version", "protocol_version|protocol version"},
	{"intercepting proxy", "a proxy that terminates TLS and forwards to the real controller, with a CA that the system's store trusts", intercepting, true,
		"unknown authority", "certificate_verify_failed"},
}

func wrongPin(a *attempt, c *config.Config) *impostor {
	c.Pin = "sha256:" + zeros
	return foreignChain(a, c)
}

func anotherRoot(a *attempt, c *config.Config) *impostor {
	i := foreignChain(a, c)
	c.RootCertificate = string(i.root)
	return i
}

func httpURL(a *attempt, c *config.Config) *impostor {
	i := plainServer(a, c)
	c.ControllerURLs = []string{strings.Replace(i.url, "https://", "http://", 1)}
	return i
}

func plainServer(a *attempt, c *config.Config) *impostor {
	i := serve(a, listen(a), nil, func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 4096))
		_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"))
		_, _ = io.Copy(io.Discard, conn)
	})
	c.ControllerURLs = []string{i.url}
	return i
}

// foreignChain is an impostor with a root of its own.
func foreignChain(a *attempt, c *config.Config) *impostor {
	config, root := foreign(a)
	i := serve(a, listen(a), config, nil)
	i.root, c.ControllerURLs = root, []string{i.url}
	return i
}

func foreign(a *attempt) (*tls.Config, []byte) {
	root := testca.Root(a, "nodehitch root")
	chain := root.Intermediate(a).Server(a, time.Now().Add(time.Hour), "127.0.0.1", "localhost")
	return &tls.Config{Certificates: []tls.Certificate{chain}}, root.PEM()
}

// intercepting passes on what it hears; only the certificate chain tells it from the
// controller.
func intercepting(a *attempt, c *config.Config) *impostor {
	config, root := foreign(a)
	upstream := &tls.Config{RootCAs: a.w.roots, ServerName: "127.0.0.1"}
	address := strings.TrimPrefix(a.w.URL, "https://")
	i := serve(a, listen(a), config, func(conn net.Conn) {
		onward, err := (&tls.Dialer{Config: upstream}).DialContext(a.Context(), "tcp", address)
		if err != nil {
			return
		}
		defer onward.Close()
		go func() { _, _ = io.Copy(onward, conn) }()
		_, _ = io.Copy(conn, onward)
	})
	i.root, c.ControllerURLs = root, []string{i.url}
	return i
}

// served is an impostor whose certificate is below the pinned root: the
// controller's own intermediate has signed it, and change says what is wrong with
// it.
func served(change func(*x509.Certificate), worse func(*tls.Config)) func(*attempt, *config.Config) *impostor {
	return func(a *attempt, c *config.Config) *impostor {
		template := serverTemplate()
		change(template)
		parent, key, _ := a.w.pki("intermediate-*.pem")
		own := testca.NewKey()
		chain := [][]byte{a.sign(template, parent, own.Public(), key).Raw, parent.Raw}
		config := &tls.Config{Certificates: []tls.Certificate{{Certificate: chain, PrivateKey: own}}}
		if worse != nil {
			worse(config)
		}
		i := serve(a, listen(a), config, nil)
		c.ControllerURLs = []string{i.url}
		return i
	}
}

func expiredIntermediate(a *attempt, c *config.Config) *impostor {
	root, rootKey, _ := a.w.pki("root.pem")
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "nodehitch intermediate"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(-time.Minute),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	key, own := testca.NewKey(), testca.NewKey()
	intermediate := a.sign(template, root, key.Public(), rootKey)
	chain := [][]byte{a.sign(serverTemplate(), intermediate, own.Public(), key).Raw, intermediate.Raw}
	i := serve(a, listen(a), &tls.Config{Certificates: []tls.Certificate{{Certificate: chain, PrivateKey: own}}}, nil)
	c.ControllerURLs = []string{i.url}
	return i
}

func serverTemplate() *x509.Certificate {
	return &x509.Certificate{NotBefore: time.Now().Add(-50 * time.Minute), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
}
