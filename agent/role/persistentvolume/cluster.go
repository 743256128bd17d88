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

// fieldManager is by whom fields are owned in the cluster.
const fieldManager = "nodehitch"

var persistentVolumes = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}

// pageSize is how many volumes one answer has: so few that a cluster of thousands does
// not cost the agent its memory, and more than most clusters have.
const pageSize = 500

// cluster is the PersistentVolumes of the cluster that a kubeconfig leads to.
type cluster struct {
	path    string // of the kubeconfig
	config  *clientcmdapi.Config
	expires time.Time // when the kubeconfig's certificate does; zero where it has none
	volumes dynamic.ResourceInterface
	idle    func() // gives up the connections that nothing is under way on
	// lost says that a request had no answer. Its connection, which others share, may
	// lead to a machine that is gone, and would for the better part of a minute.
	lost bool
	// settled has, by name, what need not be asked about again.
	settled map[string]settled
}

// get is the volume of this name, nil where there is none.
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

// list is every volume of the cluster that is to be kept in mind, all as they are at
// one moment.
func (c *cluster) list(ctx context.Context, keep func(volume) bool) ([]volume, error) {
	var kept []volume
	for o := (metav1.ListOptions{Limit: pageSize}); ; {
		page, err := c.volumes.List(ctx, o)
		if apierrors.IsResourceExpired(err) { // that moment is forgotten
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

// delete deletes this very volume as it was seen; one that is gone already is no error.
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

// waitGone waits for what was deleted to be gone, and says what is not by the limit.
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
