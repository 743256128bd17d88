// Package persistentvolume registers PersistentVolumes in this master's Kubernetes
// cluster, and deletes them. It uses the cluster's API with the master's own kubeconfig,
// so that no credential leaves the node.
//
// There are two rules. It never changes a volume that nodehitch did not create. It never
// deletes a volume that is bound to a claim; when a storage server is withdrawn, it
// deletes none of the server's volumes while one of them is bound. What it deletes is on
// the server by its address; what counts as bound may be there by a name too.
package persistentvolume

import (
	"context"
	"net"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Options of the step. Host is required.
type Options struct {
	Host *host.Host
	// Kubeconfig is a path; its user must be allowed to get, list, create, patch and
	// delete PersistentVolumes. "" means kubeapi.AdminKubeconfig. It is read in every pass.
	Kubeconfig string
	// RequestLimit is how long one request may take; 0 = kubeapi.DefaultRequestLimit.
	RequestLimit time.Duration
	// GoneLimit is how long one pass waits until deleted volumes are gone; 0 = 10 seconds.
	GoneLimit time.Duration
	// Resolver resolves the names in PersistentVolumes of others; nil = this machine's.
	Resolver *net.Resolver
	// ResolveLimit is how long one pass waits for names; 0 = 10 seconds.
	ResolveLimit time.Duration
}

// step owns PersistentVolumesRegistered.
type step struct {
	Options
	access kubeapi.Access
	known  *cluster // of the last pass
	// bound is what a registration saw last: it stays true while the API server is down.
	bound []api.BoundPersistentVolume
}

// New returns the step that owns PersistentVolumesRegistered.
func New(o Options) converge.Step {
	if o.GoneLimit == 0 {
		o.GoneLimit = 10 * time.Second
	}
	if o.Resolver == nil {
		o.Resolver = thisMachine
	}
	if o.ResolveLimit == 0 {
		o.ResolveLimit = 10 * time.Second
	}
	return &step{Options: o, access: kubeapi.Access{
		Host: o.Host, Kubeconfig: o.Kubeconfig, RequestLimit: o.RequestLimit,
		Rights: "get, list, create, patch and delete persistentvolumes",
	}}
}

func (s *step) Condition() string { return api.ConditionPersistentVolumesRegistered }

// ClusterScoped makes the engine act only for a document that the controller has
// confirmed on the present connection: a master that was offline must not recreate
// volumes that were deleted meanwhile.
func (s *step) ClusterScoped() {}

func (s *step) Plan(ctx context.Context, desired *api.NodeConfig) (converge.Plan, error) {
	if desired.PersistentVolumes == nil || desired.PersistentVolumes.State == api.PersistentVolumesAbsent {
		s.bound = nil // nothing is to be kept where it points to
	}
	if desired.PersistentVolumes == nil {
		return converge.Plan{HandsOff: true}, nil
	}
	plan, err := s.plan(ctx, desired.PersistentVolumes)
	plan.BoundPersistentVolumes = s.bound
	return plan, err
}

func (s *step) plan(ctx context.Context, section *api.PersistentVolumesSection) (converge.Plan, error) {
	all, err := manifestsOf(section)
	if err != nil {
		return converge.Plan{}, err
	}
	c, err := s.connect()
	if err != nil {
		return converge.Plan{}, err
	}
	if section.State == api.PersistentVolumesAbsent {
		w := &withdrawal{
			cluster: c, servers: section.Servers, named: all, limit: s.GoneLimit,
			names: &lookup{resolver: s.Resolver, limit: s.ResolveLimit, servers: section.Servers},
		}
		return w.plan(ctx)
	}
	r := &registration{cluster: c, servers: section.Servers, wanted: all, limit: s.GoneLimit, saw: func(b []api.BoundPersistentVolume) { s.bound = b }}
	return r.plan(ctx)
}

// manifestsOf returns the section's manifests in the form to apply.
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
