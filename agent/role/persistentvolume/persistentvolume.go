// Package persistentvolume registers PersistentVolumes in the Kubernetes cluster that
// this master belongs to, and takes them away. It goes through the cluster's API with
// the master's own kubeconfig, so that no credential leaves the node.
//
// Two rules hold: what nodehitch did not make is never changed, and no volume is deleted
// that a claim is bound to; none of a storage server that is withdrawn, while one is.
package persistentvolume

import (
	"context"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// DefaultKubeconfig is where kubeadm leaves the kubeconfig of a master.
const DefaultKubeconfig = "/etc/kubernetes/admin.conf"

// Options are what the step needs. Host is required.
type Options struct {
	Host *host.Host
	// Kubeconfig is the path of one whose user may get, list, create, patch and delete
	// PersistentVolumes; "" means DefaultKubeconfig. It is read at every pass.
	Kubeconfig string
	// RequestLimit is how long one request may take; 0 = 10 seconds.
	RequestLimit time.Duration
	// GoneLimit is how long one pass waits for what it deleted to be gone; 0 = 10 seconds.
	GoneLimit time.Duration
}

// step owns PersistentVolumesRegistered.
type step struct {
	Options
	known *cluster // of the last pass
}

// New is the step that owns PersistentVolumesRegistered.
func New(o Options) converge.Step {
	if o.Kubeconfig == "" {
		o.Kubeconfig = DefaultKubeconfig
	}
	if o.RequestLimit == 0 {
		o.RequestLimit = 10 * time.Second
	}
	if o.GoneLimit == 0 {
		o.GoneLimit = 10 * time.Second
	}
	return &step{Options: o}
}

func (s *step) Condition() string { return api.ConditionPersistentVolumesRegistered }

// ClusterScoped has the engine act only under a document that the controller confirmed
// on the present connection: a master that was cut off must not make again what was
// deleted meanwhile.
func (s *step) ClusterScoped() {}

func (s *step) Plan(ctx context.Context, desired *api.NodeConfig) (converge.Plan, error) {
	section := desired.PersistentVolumes
	if section == nil {
		return converge.Plan{HandsOff: true}, nil
	}
	all, err := manifestsOf(section)
	if err != nil {
		return converge.Plan{}, err
	}
	c, err := s.connect()
	if err != nil {
		return converge.Plan{}, err
	}
	if section.State == api.PersistentVolumesAbsent {
		w := &withdrawal{cluster: c, servers: section.Servers, named: all, limit: s.GoneLimit}
		return w.plan(ctx)
	}
	r := &registration{cluster: c, servers: section.Servers, wanted: all, limit: s.GoneLimit}
	return r.plan(ctx)
}

// manifestsOf are the section's manifests as they are to be applied.
func manifestsOf(section *api.PersistentVolumesSection) ([]volume, error) {
	var all []volume
	for i, m := range section.Manifests {
		v, err := wanted(m)
		if err != nil {
			return nil, converge.Fail(api.ReasonInvalidDocument, "manifest %d: %v", i, err)
		}
		all = append(all, v)
	}
	return all, nil
}
