package persistentvolume

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
)

var persistentVolumes = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}

// pageSize is how many volumes one answer has: more than most clusters have, and few
// enough to bound the agent's memory with thousands of volumes.
const pageSize = 500

// cluster is the PersistentVolumes of the kubeconfig's cluster.
type cluster struct {
	*kubeapi.Client
	volumes dynamic.ResourceInterface
	// confirmed has, by name, the volumes that need no request.
	confirmed map[string]confirmed
}

// connect keeps the records of the last pass for as long as its client is good.
func (s *step) connect() (*cluster, error) {
	client, err := s.access.Connect()
	if err != nil {
		return nil, err
	}
	if s.known == nil || s.known.Client != client {
		s.known = &cluster{Client: client, volumes: client.Resource(persistentVolumes), confirmed: map[string]confirmed{}}
	}
	return s.known, nil
}

// get returns the volume of this name, nil if there is none.
func (c *cluster) get(ctx context.Context, name string) (*volume, error) {
	u, err := c.volumes.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, c.explain(err)
	}
	return &volume{u}, nil
}

// list returns the cluster's volumes that keep selects, in one consistent snapshot.
func (c *cluster) list(ctx context.Context, keep func(volume) bool) ([]volume, error) {
	var kept []volume
	for o := (metav1.ListOptions{Limit: pageSize}); ; {
		page, err := c.volumes.List(ctx, o)
		if apierrors.IsResourceExpired(err) { // the snapshot is gone
			return nil, errChanged
		}
		if err != nil {
			return nil, c.explain(err)
		}
		for i := range page.Items {
			if v := (volume{&page.Items[i]}); keep(v) {
				kept = append(kept, v)
			}
		}
		if o.Continue = page.GetContinue(); o.Continue == "" {
			return kept, nil
		}
	}
}

// delete deletes the volume in the observed version. A volume that is gone is no error.
func (c *cluster) delete(ctx context.Context, v volume) error {
	uid, seen := v.GetUID(), v.GetResourceVersion()
	err := c.volumes.Delete(ctx, v.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &seen},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// waitGone waits until the deleted volumes are gone. The error names those that still
// exist after the limit.
func (c *cluster) waitGone(ctx context.Context, limit time.Duration, names ...string) error {
	over := time.NewTimer(limit)
	defer over.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		var left []error
		for _, name := range names {
			v, err := c.get(ctx, name)
			if err != nil {
				return err
			}
			if v != nil && v.deleting() {
				left = append(left, v.stuck())
			}
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-over.C:
			return errors.Join(left...)
		case <-ctx.Done():
			return errors.Join(left...)
		case <-tick.C:
		}
	}
}
