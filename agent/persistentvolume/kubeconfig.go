package persistentvolume

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
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

// load reads the kubeconfig, and the files that it names. What is wrong with its
// content is not repeated, for it holds a key.
func (s *step) load() (*clientcmdapi.Config, error) {
	content, err := s.Host.Files.Read(s.Kubeconfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, s.wait("there is no "+s.Kubeconfig, ", so no cluster is installed on this node yet")
	}
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.Load(content)
	if err != nil {
		return nil, s.wait(s.Kubeconfig, " is not a whole kubeconfig")
	}
	var cluster *clientcmdapi.Cluster
	var user *clientcmdapi.AuthInfo
	if context := config.Contexts[config.CurrentContext]; context != nil {
		cluster, user = config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
	}
	if cluster == nil || user == nil {
		return nil, s.wait(s.Kubeconfig, " is not a whole kubeconfig")
	}
	if user.Exec != nil || user.AuthProvider != nil {
		return nil, s.wait(s.Kubeconfig, " has a program give the credentials, which the agent does not run; have it hold a client certificate or a token")
	}
	return config, s.embed(cluster, user)
}

func (s *step) wait(what, is string) error {
	return converge.Wait(api.ReasonClusterNotInstalled, "%s%s", what, is)
}

// embed puts the files that a kubeconfig names into it, so that a new certificate in
// one of them is another kubeconfig. Their paths begin where the kubeconfig is.
func (s *step) embed(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) error {
	var token []byte
	for _, named := range []struct {
		path *string
		data *[]byte
	}{
		{&cluster.CertificateAuthority, &cluster.CertificateAuthorityData},
		{&user.ClientCertificate, &user.ClientCertificateData},
		{&user.ClientKey, &user.ClientKeyData},
		{&user.TokenFile, &token},
	} {
		path := *named.path
		*named.path = ""
		if path == "" || len(*named.data) > 0 {
			continue
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(s.Kubeconfig), path)
		}
		content, err := s.Host.Files.Read(path)
		if errors.Is(err, fs.ErrNotExist) {
			return s.wait(s.Kubeconfig, " names "+path+", which is not there")
		}
		if err != nil {
			return err
		}
		*named.data = content
	}
	if len(token) > 0 {
		user.Token = strings.TrimSpace(string(token))
	}
	return nil
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
