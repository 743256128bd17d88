package persistentvolume

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// fieldManager is our field manager in the cluster.
const fieldManager = "nodehitch"

var persistentVolumes = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}

// pageSize is how many volumes one answer has: more than most clusters have, and few
// enough to bound the agent's memory with thousands of volumes.
const pageSize = 500

// cluster is the PersistentVolumes of the kubeconfig's cluster.
type cluster struct {
	path    string // of the kubeconfig
	config  *clientcmdapi.Config
	expires time.Time // of the kubeconfig's certificate; zero if it has none
	volumes dynamic.ResourceInterface
	idle    func() // closes idle connections
	// lost says that a request got no answer. Its connection, which others share, may
	// lead to a machine that is gone, for most of a minute.
	lost bool
	// confirmed has, by name, the volumes that need no request.
	confirmed map[string]confirmed
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
