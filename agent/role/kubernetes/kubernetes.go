// Package kubernetes makes masters and workers that the agent joins to their cluster what
// Kubernetes needs, and reports whether it runs there: the container engine, kubeadm and kubelet
// with what the kernel has to permit, the control plane of a master, and the network of Pods.
// Step clustermember joins the machine in between.
package kubernetes

import (
	"context"
	"fmt"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/etcd"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/agent/role/kubernetes/kubeadm"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Options of the steps. Host, Kubeadm and Files are required.
type Options struct {
	Host    *host.Host
	Kubeadm *kubeadm.Machine
	Files   kubeadm.Files
	// Kubeconfig is a path; "" means kubeapi.AdminKubeconfig.
	Kubeconfig string
	// RequestLimit is how long one request may take; 0 = kubeapi.DefaultRequestLimit.
	RequestLimit time.Duration
	// EtcdEndpoint is the URL of etcd; "" = etcd.DefaultEndpoint.
	EtcdEndpoint string
	// Now is the clock by which certificates expire; nil = time.Now.
	Now func() time.Time
}

// BeforeJoining are the steps that a machine needs before it can be a member: EngineReady and
// KubernetesInstalled.
func BeforeJoining(o Options) []converge.Step {
	return []converge.Step{&engineStep{o}, &installedStep{o}}
}

// AfterJoining are the steps of members: ControlPlaneHealthy and PodNetworkReady.
func AfterJoining(o Options) []converge.Step {
	access := kubeapi.Access{Host: o.Host, Kubeconfig: o.Kubeconfig, RequestLimit: o.RequestLimit}
	health, network := access, access
	health.Rights = "get /readyz"
	network.Rights = "list nodes, and get and patch the objects of the manifest and the deployment coredns"
	return []converge.Step{
		&controlPlaneStep{Options: o, access: health, etcd: etcd.Access{Host: o.Host, Endpoint: o.EtcdEndpoint}},
		&podNetworkStep{Options: o, access: network},
	}
}

// installedStep owns KubernetesInstalled.
type installedStep struct{ Options }

func (s *installedStep) Condition() string { return api.ConditionKubernetesInstalled }

func (s *installedStep) Plan(ctx context.Context, desired *api.NodeConfig) (converge.Plan, error) {
	if desired.Kubernetes == nil {
		return converge.Plan{HandsOff: true}, nil
	}
	actions, err := s.Kubeadm.Prepare(ctx, desired)
	found, _ := s.Host.Kubeadm.Versions(ctx) // Prepare says it if they cannot be asked
	return converge.Plan{
		KubeletVersion: found.Kubelet, Actions: actions, Reason: api.ReasonInstalled,
		Message: fmt.Sprintf("kubeadm and kubelet %s are installed", desired.Kubernetes.Version),
	}, err
}
