package registryclient

import (
	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

// otherEngines pull with files of their own, and read none that the agent writes. Each has a
// socket of its own, which is there only if the engine is: k3s has none if it uses Docker or
// the machine's containerd.
var otherEngines = []struct{ socket, name, reads string }{
	{"/run/snap.docker/containerd/containerd.sock", "Docker as a snap", "/var/snap/docker/current/config/daemon.json and /var/snap/docker/current/etc/docker/certs.d"},
	{"/run/k3s/containerd/containerd.sock", "the containerd of k3s or RKE2", "/etc/rancher/k3s/registries.yaml or /etc/rancher/rke2/registries.yaml"},
	{"/run/k0s/containerd.sock", "the containerd of k0s", "/etc/k0s/containerd.toml"},
	{"/var/snap/microk8s/common/run/containerd.sock", "the containerd of MicroK8s", "/var/snap/microk8s/current/args/certs.d"},
	{"/run/crio/crio.sock", "CRI-O", "/etc/containers/registries.conf"},
}

// otherEngine reports an engine that the agent cannot connect, also beside one that it can:
// Kubernetes may pull with either.
func (p *plan) otherEngine() (found bool) {
	for _, e := range otherEngines {
		match, err := p.Host.Files.Match(e.socket)
		if err != nil {
			p.problem(err)
		}
		if len(match) > 0 {
			found = true
			p.problem(converge.Wait(api.ReasonEngineNotRunning,
				"%s is on this machine (%s), and the agent configures only %s and %s; write the registries to what it reads (%s) and take them out of the request, or let Kubernetes use one of those two units and remove it",
				e.name, e.socket, dockerUnit, containerdUnit, e.reads))
		}
	}
	return found
}
