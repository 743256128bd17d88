package persistentvolume

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/url"
	"reflect"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nodehitch/nodehitch/shared/version"
)

// connect is the cluster of the kubeconfig as it is now, for certificates are renewed;
// connections, and what is known of the cluster, are kept while it is the same and the
// API server answers.
func (s *step) connect() (*cluster, error) {
	config, err := s.load()
	if err != nil {
		return nil, err
	}
	if s.known != nil && !s.known.lost && reflect.DeepEqual(s.known.config, config) {
		return s.known, nil
	}
	c, err := s.dial(config)
	if err != nil {
		return nil, err
	}
	if s.known != nil {
		s.known.idle()
	}
	s.known = c
	return c, nil
}

// dial makes a client; it sends nothing.
func (s *step) dial(content *clientcmdapi.Config) (*cluster, error) {
	config, err := clientcmd.NewNonInteractiveClientConfig(*content.DeepCopy(), content.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, s.wait(s.Kubeconfig, " is not a whole kubeconfig")
	}
	config.Timeout = s.RequestLimit
	config.QPS = -1 // a handful of requests, and each pass ends
	config.UserAgent = "nodehitch-agent/" + version.Version
	config.WarningHandler = rest.NoWarnings{}
	if config.Proxy == nil { // the API server of this very node; the environment's proxy is not the way
		config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, s.wait(s.Kubeconfig, ": its certificates or its key cannot be used")
	}
	resources, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, s.wait(s.Kubeconfig, ": its server cannot be used")
	}
	return &cluster{
		path: s.Kubeconfig, config: content, expires: expiry(config.CertData),
		volumes: resources.Resource(persistentVolumes), settled: map[string]settled{},
		idle: func() { utilnet.CloseIdleConnectionsFor(client.Transport) }, // the client's own does not look into what wraps it
	}, nil
}

// expiry is when a certificate ends to be valid, zero where there is none.
func expiry(certificate []byte) time.Time {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return time.Time{}
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}
	}
	return parsed.NotAfter
}
