package persistentvolume

import (
	"context"
	"maps"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// settled is a volume of which the API server said that applying want to it as it was,
// live, changes nothing. While both are the same there is no need to ask again.
type settled struct{ want, live map[string]any }

// make makes a volume. It forces nothing, so that one which another made since it was
// looked for is not taken over.
func (r *registration) make(ctx context.Context, want volume) error {
	made, err := r.volumes.Apply(ctx, want.GetName(), want.Unstructured, metav1.ApplyOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return foreign(want.GetName())
	case err != nil:
		return r.explainApply(want.GetName(), err)
	}
	return r.giveBack(ctx, volume{made})
}

// giveBack takes our hands off a volume that another made in between after the same
// manifest: equal values are no conflict to the API server. What only we said of it,
// the mark as ours, goes with that.
func (r *registration) giveBack(ctx context.Context, made volume) error {
	if !slices.ContainsFunc(made.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager != fieldManager }) {
		return nil
	}
	nothing := &unstructured.Unstructured{Object: map[string]any{}}
	nothing.SetGroupVersionKind(made.GroupVersionKind())
	nothing.SetName(made.GetName())
	nothing.SetUID(made.GetUID())
	if _, err := r.volumes.Apply(ctx, made.GetName(), nothing, metav1.ApplyOptions{FieldManager: fieldManager}); err != nil {
		return r.explain(err)
	}
	return foreign(made.GetName())
}

// fields plans that the fields of the manifest are as they should be: the API server
// itself says, without doing it, what applying it would change.
func (r *registration) fields(ctx context.Context, want, live volume) error {
	name := want.GetName()
	now := settled{want: want.Object, live: live.Object}
	if reflect.DeepEqual(r.settled[name], now) {
		return nil
	}
	locked := volume{want.DeepCopy()}
	locked.SetResourceVersion(live.GetResourceVersion())
	force := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
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
		r.settled[name] = now
		return nil
	}
	r.do(name, "put PersistentVolume "+name+" back to its manifest", func(ctx context.Context) error {
		_, err := apply(ctx, force)
		return err
	})
	return nil
}

// forget drops what was kept of volumes that no manifest has any more.
func (r *registration) forget() {
	maps.DeleteFunc(r.settled, func(name string, _ settled) bool { return !named(r.wanted, name) })
}
