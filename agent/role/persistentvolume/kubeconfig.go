package persistentvolume

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

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
