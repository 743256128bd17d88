package persistentvolume

import (
	"context"
	"maps"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
)

// confirmed records that applying want to the volume as it was, live, changes nothing.
// While both stay the same the agent sends no request.
type confirmed struct{ want, live map[string]any }

// make creates a volume. It does not force conflicts, so that a volume which someone else
// has created meanwhile is not taken over.
func (r *registration) make(ctx context.Context, want volume) error {
	made, err := r.volumes.Apply(ctx, want.GetName(), want.Unstructured, metav1.ApplyOptions{FieldManager: kubeapi.FieldManager})
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return foreign(want.GetName())
	case err != nil:
		return r.explainApply(want.GetName(), err)
	}
	return r.giveBack(ctx, volume{made})
}

// giveBack releases a volume that someone else has created meanwhile from the same
// manifest, because equal values are no conflict for the API server. It also removes our
// label.
func (r *registration) giveBack(ctx context.Context, made volume) error {
	if !slices.ContainsFunc(made.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager != kubeapi.FieldManager }) {
		return nil
	}
	nothing := &unstructured.Unstructured{Object: map[string]any{}}
	nothing.SetGroupVersionKind(made.GroupVersionKind())
	nothing.SetName(made.GetName())
	nothing.SetUID(made.GetUID())
	if _, err := r.volumes.Apply(ctx, made.GetName(), nothing, metav1.ApplyOptions{FieldManager: kubeapi.FieldManager}); err != nil {
		return r.explain(err)
	}
	return foreign(made.GetName())
}

// fields plans to apply the manifest if a dry run on the API server shows a change.
func (r *registration) fields(ctx context.Context, want, live volume) error {
	name := want.GetName()
	now := confirmed{want: want.Object, live: live.Object}
	if reflect.DeepEqual(r.confirmed[name], now) {
		return nil
	}
	locked := volume{want.DeepCopy()}
	locked.SetResourceVersion(live.GetResourceVersion())
	force := metav1.ApplyOptions{FieldManager: kubeapi.FieldManager, Force: true}
	apply := func(ctx context.Context, o metav1.ApplyOptions) (*volume, error) {
		u, err := r.volumes.Apply(ctx, name, locked.Unstructured, o)
		if err != nil {
			return nil, r.explainApply(name, err)
		}
		return &volume{u}, nil
	}
	dry := force
	dry.DryRun = []string{metav1.DryRunAll}
	would, err := apply(ctx, dry)
	if err != nil {
		return err
	}
	if reflect.DeepEqual(would.Object, live.Object) {
		r.confirmed[name] = now
		return nil
	}
	r.do(name, "apply the manifest of PersistentVolume "+name, func(ctx context.Context) error {
		_, err := apply(ctx, force)
		return err
	})
	return nil
}

// forget drops the records of volumes that no manifest has.
func (r *registration) forget() {
	maps.DeleteFunc(r.confirmed, func(name string, _ confirmed) bool { return !named(r.wanted, name) })
}
