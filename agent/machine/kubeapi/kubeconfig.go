package kubeapi

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

// load reads the kubeconfig and the files that it names. Errors do not repeat its
// content, because it contains a key.
func (a *Access) load() (*clientcmdapi.Config, error) {
	content, err := a.Host.Files.Read(a.Kubeconfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, a.wait(a.Kubeconfig+" does not exist", ", so no cluster is installed on this node yet")
	}
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.Load(content)
	if err != nil {
		return nil, a.wait(a.Kubeconfig, " is not a complete kubeconfig")
	}
	var cluster *clientcmdapi.Cluster
	var user *clientcmdapi.AuthInfo
	if context := config.Contexts[config.CurrentContext]; context != nil {
		cluster, user = config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
	}
	if cluster == nil || user == nil {
		return nil, a.wait(a.Kubeconfig, " is not a complete kubeconfig")
	}
	if user.Exec != nil || user.AuthProvider != nil {
		return nil, a.wait(a.Kubeconfig, " gets its credentials from a program, which the agent does not run; use a client certificate or a token")
	}
	return config, a.embed(cluster, user)
}

func (a *Access) wait(what, is string) error {
	return converge.Wait(api.ReasonClusterNotInstalled, "%s%s", what, is)
}

// embed replaces the files that a kubeconfig names by their content, so that a renewed
// certificate changes the kubeconfig. Paths are relative to the kubeconfig.
func (a *Access) embed(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) error {
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
			path = filepath.Join(filepath.Dir(a.Kubeconfig), path)
		}
		content, err := a.Host.Files.Read(path)
		if errors.Is(err, fs.ErrNotExist) {
			return a.wait(a.Kubeconfig, " names "+path+", which does not exist")
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
