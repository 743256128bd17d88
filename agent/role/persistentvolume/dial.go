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

// connect reads the kubeconfig, because its certificates are renewed. It keeps the
// connections and the records of the last pass while the kubeconfig is unchanged and the
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

// dial makes a client without sending anything.
func (s *step) dial(content *clientcmdapi.Config) (*cluster, error) {
	config, err := clientcmd.NewNonInteractiveClientConfig(*content.DeepCopy(), content.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, s.wait(s.Kubeconfig, " is not a complete kubeconfig")
	}
	config.Timeout = s.RequestLimit
	config.QPS = -1 // a pass sends only a few requests
	config.UserAgent = "nodehitch-agent/" + version.Version
	config.WarningHandler = rest.NoWarnings{}
	if config.Proxy == nil { // this node's own API server is never behind the environment's proxy
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
		volumes: resources.Resource(persistentVolumes), confirmed: map[string]confirmed{},
		idle: func() { utilnet.CloseIdleConnectionsFor(client.Transport) }, // the client's own CloseIdleConnections does not reach a wrapped transport
	}, nil
}

// expiry is when a certificate expires, zero if there is none.
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
