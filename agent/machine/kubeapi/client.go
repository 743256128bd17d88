// Package kubeapi reaches the Kubernetes cluster that this machine belongs to, with a
// kubeconfig of the machine, so that no credential leaves it. It gives objects without
// their types, because typed clients would double the agent's size.
package kubeapi

import (
	"cmp"
	"crypto/x509"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/version"
)

// AdminKubeconfig is kubeadm's kubeconfig on a master.
const AdminKubeconfig = "/etc/kubernetes/admin.conf"

// FieldManager is the agent's field manager in the cluster.
const FieldManager = "nodehitch"

// DefaultRequestLimit is how long one request may take.
const DefaultRequestLimit = 10 * time.Second

// Access is the way to a cluster. It keeps its connections from pass to pass. It is not
// safe for concurrent use.
type Access struct {
	Host *host.Host
	// Kubeconfig is a path; "" = AdminKubeconfig. It is read in every pass.
	Kubeconfig string
	// RequestLimit is how long one request may take; 0 = DefaultRequestLimit.
	RequestLimit time.Duration
	// Rights is what its user must be allowed to do, for messages, such as "get and list
	// persistentvolumes".
	Rights string
	// Renewal says how its credentials are renewed, for messages; "" = by kubeadm.
	Renewal string

	known *Client // of the last pass
}

// Client is the API server of a kubeconfig.
type Client struct {
	dynamic.Interface
	// Path is that of the kubeconfig.
	Path string

	config          *clientcmdapi.Config // its content; it contains a key
	rights, renewal string
	certificate     *x509.Certificate // the kubeconfig's; nil if it has none
	authority       []byte            // the certificates by which the API server is trusted
	http            *http.Client      // with the kubeconfig's credentials
	server          string            // the API server's URL
	idle            func()            // closes idle connections
	// lost says that a request got no answer. Its connection, which others share, may
	// lead to a machine that is gone, for most of a minute.
	lost bool
}

// Connect reads the kubeconfig, because its certificates are renewed. It returns the
// client of the last pass while the kubeconfig is unchanged and the API server answers.
// It sends nothing. The error says what the kubeconfig lacks.
func (a *Access) Connect() (*Client, error) {
	a.Kubeconfig = cmp.Or(a.Kubeconfig, AdminKubeconfig)
	config, err := a.load()
	if err != nil {
		return nil, err
	}
	if a.known != nil && !a.known.lost && reflect.DeepEqual(a.known.config, config) {
		return a.known, nil
	}
	c, err := a.dial(config)
	if err != nil {
		return nil, err
	}
	if a.known != nil {
		a.known.idle()
	}
	a.known = c
	return c, nil
}

// dial makes a client without sending anything.
func (a *Access) dial(content *clientcmdapi.Config) (*Client, error) {
	config, err := clientcmd.NewNonInteractiveClientConfig(*content.DeepCopy(), content.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, a.wait(a.Kubeconfig, " is not a complete kubeconfig")
	}
	if config.Timeout = a.RequestLimit; config.Timeout == 0 {
		config.Timeout = DefaultRequestLimit
	}
	config.QPS = -1 // a pass sends only a few requests
	config.UserAgent = "nodehitch-agent/" + version.Version
	config.WarningHandler = rest.NoWarnings{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return atOnce{next} })
	if config.Proxy == nil { // this node's own API server is never behind the environment's proxy
		config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, a.wait(a.Kubeconfig, ": its certificates or its key cannot be used")
	}
	resources, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, a.wait(a.Kubeconfig, ": its server cannot be used")
	}
	return &Client{
		Interface: resources, Path: a.Kubeconfig, config: content, rights: a.Rights, renewal: cmp.Or(a.Renewal, "renew them, for example with `kubeadm certs renew admin.conf`"),
		certificate: certificateOf(config.CertData), authority: config.CAData, http: client, server: strings.TrimSuffix(config.Host, "/"),
		idle: func() { utilnet.CloseIdleConnectionsFor(client.Transport) }, // the client's own CloseIdleConnections does not reach a wrapped transport
	}, nil
}

// atOnce gives answers without the time after which the client would repeat the request: it
// would do so for minutes. The next pass repeats it, or the next round of a drain.
type atOnce struct{ next http.RoundTripper }

func (a atOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := a.next.RoundTrip(r)
	if answer != nil {
		answer.Header.Del("Retry-After")
	}
	return answer, err
}

// WrappedRoundTripper lets the client close its idle connections.
func (a atOnce) WrappedRoundTripper() http.RoundTripper { return a.next }
