package persistentvolume

import (
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

// stray says that nodehitch made the volume for this storage server, and that no
// manifest has it any more.
func (r *registration) stray(v volume) bool {
	return v.ours() && v.servedBy(r.servers) && !named(r.wanted, v.GetName())
}

// sweep plans that strays go. One that is used stays until it is not: unlike in a
// withdrawal nobody waits for it, and the others need not wait for it either.
func (r *registration) sweep(strays []volume) error {
	var free []volume
	var kept []error
	for _, v := range strays {
		switch {
		case v.deleting() && v.bound():
			kept = append(kept, converge.Wait(api.ReasonStuckTerminating,
				"PersistentVolume %s is no longer among the manifests, was deleted, and is still bound to %s; it goes when the claim does", v.GetName(), v.claim()))
		case v.deleting():
			kept = append(kept, v.stuck())
		case v.bound():
			kept = append(kept, converge.Wait(api.ReasonInUse,
				"PersistentVolume %s is no longer among the manifests and is bound to %s; it goes when the claim does", v.GetName(), v.claim()))
		case v.claim() != "" && !v.freed():
			kept = append(kept, converge.Wait(api.ReasonInUse,
				"PersistentVolume %s is no longer among the manifests and is kept for %s; it goes when its spec.claimRef does", v.GetName(), v.claim()))
		default:
			free = append(free, v)
		}
	}
	if len(free) > 0 {
		r.do("no longer among the manifests", "delete PersistentVolumes "+strings.Join(names(free), ", ")+", which are no longer among the manifests",
			func(ctx context.Context) error { return r.remove(ctx, free) })
	}
	return errors.Join(kept...)
}

// remove deletes each as it was seen. One that was changed since may have been bound.
func (r *registration) remove(ctx context.Context, strays []volume) error {
	var deleted []string
	var problems []error
	for _, v := range strays {
		switch err := r.delete(ctx, v); {
		case apierrors.IsConflict(err):
			problems = append(problems, converge.Wait(api.ReasonInUse,
				"PersistentVolume %s is no longer among the manifests, and was changed while it was to be deleted, so it may be in use", v.GetName()))
		case err != nil:
			return errors.Join(append(problems, r.explain(err))...)
		default:
			deleted = append(deleted, v.GetName())
		}
	}
	return errors.Join(append(problems, r.waitGone(ctx, r.limit, deleted...))...)
}
