package kubernetes

import (
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// The private registry that the request names.
const (
	registryAddress = "10.10.0.1:5000"
	registryUser    = "user01"
	registryLogin   = "registry-Passw0rd"
	privateImage    = registryAddress + "/team/web:1"
)

// openRegistry starts the registry, and adds its authority to the package.
func (w *cluster) openRegistry() {
	w.T.Helper()
	end := time.Now().Add(24 * time.Hour)
	authority := registry.NewAuthority(w.T, "registry CA", end)
	w.write("Files/registry-ca.crt", string(authority.PEM))
	certificate := authority.Issue(w.T, end, "10.10.0.1")
	registry.Open(w.T, w.Lab, registry.Options{Address: registryAddress, TLS: &certificate, Users: map[string]string{registryUser: registryLogin}})
}

// privateRegistry has Pods on every worker pull an image that only the registry has.
func (w *cluster) privateRegistry(*results.Case) {
	worker := w.Of(workerPoint)[0]
	for _, args := range []string{
		"tag " + kube.TestImage + " " + privateImage,
		"push --hosts-dir /etc/containerd/certs.d --user " + registryUser + ":" + registryLogin + " " + privateImage,
		"rm " + privateImage,
	} {
		worker.Run(append([]string{"ctr", "--namespace", "k8s.io", "images"}, strings.Fields(args)...)...)
	}
	w.apply(kube.TestDeployment("private", privateImage))
	w.kubectl("wait", "--for=condition=Available", "--timeout=2m", "deployment/private")
}
